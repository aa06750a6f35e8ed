// Failures to write checkpoints never stop the training, and are reported.
#include "worker/storage/storage.h"

#include <sys/mount.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <set>

#include "tests/system/system_test.h"
#include "worker/storage/s3/testing/test_s3_server.h"

namespace swarm::tests {
namespace {

using testing::HasSubstr;

class SystemStorageTest : public SystemTest {
 protected:
  std::set<std::string> Checkpoints() const {
    std::set<std::string> names;
    std::error_code none_yet;
    for (const auto& entry : std::filesystem::directory_iterator(Path("checkpoints"), none_yet)) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  void InterruptAndExpect(int exit_code) {
    Signal("swarmctl", SIGINT);
    EXPECT_EQ(ExitCode(), exit_code) << Output();
    EXPECT_EQ(Losses(Out()).size(), StepOf(Events("Stopping").back()));
  }
  static std::uint64_t StepOf(const nlohmann::json& event) {
    const std::string text = event.at("text");
    return std::stoull(text.substr(text.rfind(' ')));
  }
};

/// A file system of its own in the memory, as small as the test wants it.
class SmallDisk {
 public:
  SmallDisk(std::string path, const std::string& size) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  bool IsFull() const {
    struct statvfs state{};
    return ::statvfs(path_.c_str(), &state) == 0 && state.f_bavail == 0;
  }
  bool Grow() { return ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, "size=64m") == 0; }

 private:
  const std::string path_;
  bool mounted_ = false;
};

TEST_F(SystemStorageTest, AFullDiskCostsCheckpointsAndNotTheTraining) {
  SmallDisk disk(Path("disk"), "64k");
  if (!disk.mounted()) GTEST_SKIP() << "may not mount a small file system";
  job_.spec.training.maxSteps = kNeverReached;
  job_.spec.checkpoint.uri = Path("disk/checkpoints");
  StartRun();
  AwaitEvent("CheckpointFailed", 2);
  EXPECT_THAT(
      Events("CheckpointFailed").front().at("text").get<std::string>(),
      testing::AllOf(HasSubstr("version 5: worker-"), HasSubstr("No space left on device")));
  ASSERT_TRUE(disk.Grow());
  AwaitEvent("CheckpointWritten");
  InterruptAndExpect(0);
}

TEST_F(SystemStorageTest, AFullDiskCostsNoLineOfTheLog) {
  SmallDisk disk(Out(), "256k");
  if (!disk.mounted()) GTEST_SKIP() << "may not mount a small file system";
  job_.spec.training.maxSteps = kNeverReached;
  job_.spec.checkpoint.uri = Path("checkpoints");
  StartRun();
  Await("a full disk", [&] { return disk.IsFull(); });
  const auto before = Checkpoints();
  Await("another checkpoint", [&] { return Checkpoints() != before; });
  ASSERT_TRUE(disk.Grow());
  AwaitMoreSteps();
  InterruptAndExpect(0);
  std::uint64_t step = 0;
  for (const auto& line : ReadLines(Out() + "/steps.jsonl")) EXPECT_EQ(line.at("step"), step++);
  EXPECT_GT(step, 10u);
}

TEST_F(SystemStorageTest, ALastCheckpointThatCannotBeWrittenIsAFailure) {
  ASSERT_TRUE(WriteFile(Path("file"), "not a folder").ok());
  job_.spec.training.maxSteps = 6;
  job_.spec.checkpoint.uri = Path("file/checkpoints");
  StartRun();
  EXPECT_EQ(ExitCode(), 1) << Output();
  EXPECT_EQ(Losses(Out()).size(), 6u);
  EXPECT_GE(Events("CheckpointFailed").size(), 2u);
  EXPECT_THAT(Output(),
              testing::ContainsRegex("Reason: trained to the end, but the last checkpoint "
                                     "could not be written: .*/file"));
}

TEST_F(SystemStorageTest, DataAndCheckpointsInABucketWhoseServerGoesAway) {
  storage::s3::TestS3Server server;
  ::setenv("AWS_ACCESS_KEY_ID", server.access_key().c_str(), 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", server.secret_key().c_str(), 1);
  job_.spec.storage.endpoint = server.url();
  job_.spec.data.uri = "s3://bucket/data/";
  job_.spec.checkpoint.uri = "s3://bucket/runs/tiny";
  const auto bucket = storage::Storage::Open("s3://bucket", job_.spec.storage);
  ASSERT_TRUE(bucket.ok()) << bucket.status().ToString();
  ASSERT_TRUE((*bucket)->Write("data/text.txt", Bytes::Copy(Content("text.txt"))).ok());

  job_.spec.training.maxSteps = kNeverReached;
  StartRun();
  AwaitEvent("CheckpointWritten");
  server.Pause();
  AwaitEvent("CheckpointFailed");
  const std::size_t steps = Losses(Out()).size();
  AwaitSteps(steps + 5);
  server.Resume();
  const std::size_t written = Events("CheckpointWritten").size();
  AwaitEvent("CheckpointWritten", written + 1);
  InterruptAndExpect(0);

  const std::size_t done = Losses(Out()).size();
  job_.spec.training.maxSteps = done + 3;
  StartRun({"--resume", "--set", "pipeline.stages=1", "--workers", "2"});
  EXPECT_EQ(ExitCode(), 0) << Output();
  EXPECT_EQ(Losses(Out()).size(), done + 3);
  EXPECT_EQ(Events("TrainingStarted").back().at("text"),
            "2 workers in 1 stages, from version " + std::to_string(done));
}

}  // namespace
}  // namespace swarm::tests
