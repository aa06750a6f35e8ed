#include "worker/page/growing_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/testing/temporary_folder.h"

namespace swarm::page {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class GrowingFileTest : public testing::Test {
 protected:
  std::string Path(const char* name = "lines") const { return (folder_.path() / name).string(); }
  void Append(const std::string& text, const char* name = "lines") const {
    std::ofstream(Path(name), std::ios::app) << text;
  }
  std::vector<std::string> Read() {
    std::vector<std::string> lines;
    continued_ = file_.ReadOn([&](std::string_view line) { lines.emplace_back(line); });
    return lines;
  }

  TemporaryFolder folder_;
  GrowingFile file_{Path()};
  bool continued_ = true;
};

TEST_F(GrowingFileTest, EachLineIsReadOnceAsSoonAsItIsWhole) {
  EXPECT_THAT(Read(), IsEmpty()) << "there is no file yet";
  Append("one\ntw");
  EXPECT_THAT(Read(), ElementsAre("one"));
  EXPECT_THAT(Read(), IsEmpty());
  Append("o\nthree\n");
  EXPECT_THAT(Read(), ElementsAre("two", "three"));
  EXPECT_TRUE(continued_);
}

TEST_F(GrowingFileTest, AFileThatIsLongerThanABufferIsReadWhole) {
  const std::string line(1000, 'x');
  for (int i = 0; i < 3000; ++i) Append(line + "\n");
  EXPECT_EQ(Read(), std::vector<std::string>(3000, line));
}

TEST_F(GrowingFileTest, AFileThatWasReplacedIsNoticedAndReadAnew) {
  Append("one\ntwo\n");
  ASSERT_THAT(Read(), ElementsAre("one", "two"));
  Append("one\nother\nthird\n", "next");
  std::filesystem::rename(Path("next"), Path());
  EXPECT_THAT(Read(), IsEmpty());
  EXPECT_FALSE(continued_);
  file_.Rewind();
  EXPECT_THAT(Read(), ElementsAre("one", "other", "third"));
  EXPECT_TRUE(continued_);
}

TEST_F(GrowingFileTest, AFileThatWasCutIsNoticed) {
  Append("one\ntwo\n");
  ASSERT_THAT(Read(), ElementsAre("one", "two"));
  std::filesystem::resize_file(Path(), 4);
  EXPECT_THAT(Read(), IsEmpty());
  EXPECT_FALSE(continued_);
}

}  // namespace
}  // namespace swarm::page
