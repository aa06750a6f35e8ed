#include "worker/trainer/log/line_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "base/testing/temporary_folder.h"

namespace swarm::trainer {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

/// No file of this process may grow beyond `bytes`, as on a full disk: the kernel writes what still
/// fits and refuses the rest.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FullDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*const handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

class LineFileTest : public testing::Test {
 protected:
  LineFile Open() {
    Result<LineFile> file = LineFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return *std::move(file);
  }
  std::string Content() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "steps.jsonl";
};

TEST_F(LineFileTest, AFullDiskCostsNoLine) {
  LineFile file = Open();
  file.Add("one");
  {
    const FullDisk disk(10);
    file.Add("two is long");
    file.Add("three");
    EXPECT_EQ(Content(), "one\ntwo is") << "what still fits";
    EXPECT_TRUE(file.waiting());
  }
  file.Flush();
  EXPECT_FALSE(file.waiting());
  EXPECT_EQ(Content(), "one\ntwo is long\nthree\n");
}

TEST_F(LineFileTest, TheNextLineBringsThoseThatWait) {
  LineFile file = Open();
  {
    const FullDisk disk(0);
    file.Add("one");
    EXPECT_EQ(Content(), "");
  }
  file.Add("two");
  EXPECT_EQ(Content(), "one\ntwo\n");
}

TEST_F(LineFileTest, LinesWaitForAFileThatCannotBeOpened) {
  const std::string elsewhere = folder_ / "folder/ledger.jsonl";
  LineFile file(elsewhere);
  file.Add("one");
  EXPECT_TRUE(file.waiting());
  std::filesystem::create_directory(folder_ / "folder");
  file.Flush();
  EXPECT_FALSE(file.waiting());
  std::ifstream in(elsewhere);
  std::string line;
  EXPECT_TRUE(std::getline(in, line));
  EXPECT_EQ(line, "one");
}

TEST_F(LineFileTest, AnEndThatACrashHasCutOffIsRemoved) {
  const std::string long_line(10'000, 'x');
  std::ofstream(path_) << "one\n" << long_line;
  Open().Add("two");
  EXPECT_EQ(Content(), "one\ntwo\n");
  std::ofstream(path_) << long_line;
  Open().Add("three");
  EXPECT_EQ(Content(), "three\n");
}

TEST_F(LineFileTest, MemoryForLinesThatWaitHasABound) {
  LineFile file = Open();
  const std::string line((1u << 20) - 1, 'x');
  {
    const FullDisk disk(0);
    for (std::size_t i = 0; i < 2 * (LineFile::kWaitingBytesMax >> 20); ++i) file.Add(line);
  }
  file.Flush();
  EXPECT_EQ(Content().size(), LineFile::kWaitingBytesMax) << "the first lines, all of them whole";
  file.Add("last");
  EXPECT_THAT(Content(), EndsWith("x\nlast\n"));
}

TEST_F(LineFileTest, AFileThatCannotBeMadeIsRefusedByName) {
  const Result<LineFile> file = LineFile::Open(folder_ / "no/steps.jsonl");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), HasSubstr("no/steps.jsonl: No such file or directory"));
}

}  // namespace
}  // namespace swarm::trainer
