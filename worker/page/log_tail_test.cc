#include "worker/page/log_tail.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing/temporary_folder.h"

namespace swarm::page {
namespace {

class LogTailTest : public testing::Test {
 protected:
  LogTailTest() { std::filesystem::create_directory(folder_ / "workers"); }
  std::optional<std::string> Tail(const char* worker, std::size_t bytes = 100) const {
    return ReadLogTail(folder_.path().string(), worker, bytes);
  }

  TemporaryFolder folder_;
};

TEST_F(LogTailTest, TheEndOfALogBeginsWithALine) {
  std::ofstream(folder_ / "workers/worker-0.log") << "one\ntwo\nthree\n";
  EXPECT_EQ(Tail("worker-0"), "one\ntwo\nthree\n");
  EXPECT_EQ(Tail("worker-0", 12), "two\nthree\n");
  EXPECT_EQ(Tail("worker-0", 7), "three\n");
  EXPECT_EQ(Tail("worker-0", 2), "");
  EXPECT_EQ(Tail("worker-1"), std::nullopt);
}

TEST_F(LogTailTest, NoNameLeadsToAnotherFile) {
  std::ofstream(folder_ / "secret.log") << "secret\n";
  std::filesystem::create_symlink(folder_ / "secret.log", folder_ / "workers/link.log");
  std::filesystem::create_directory(folder_ / "workers/folder.log");
  for (const char* name : {"../secret", "..", "", ".", "link", "folder", "a/../../secret"}) {
    EXPECT_EQ(Tail(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace swarm::page
