// Workers of two regions, which have copies of the checkpoints near them.
#include <filesystem>
#include <fstream>

#include "tests/system/system_test.h"
#include "worker/storage/s3/testing/test_s3_server.h"
#include "worker/storage/storage.h"

namespace swarm::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SystemRegionStorageTest : public SystemTest {
 protected:
  SystemRegionStorageTest() {
    job_.spec.training.accumulation = api::Accumulation::kExact;
    job_.spec.training.maxSteps = 12;
    job_.spec.checkpoint = {
        .uri = "file://" + Path("out/checkpoints"), .intervalSteps = 4, .keepLast = 2};
    job_.spec.storage.regions = {{.region = "eu", .checkpointUri = "file://" + Path("eu")},
                                 {.region = "us", .checkpointUri = "file://" + Path("us")}};
  }

  /// worker-0 and worker-2 are in eu, worker-1 in us.
  void Run(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"--workers", "0=1,1=1,2=1", "--regions", "eu,us"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    StartRun(arguments);
    ASSERT_EQ(ExitCode(), 0) << Output();
  }
  bool Exists(const std::string& file) const { return std::filesystem::exists(Path(file)); }
  std::string LogOf(const std::string& program) {
    return Content("out/workers/" + program + ".log");
  }
  /// Of the log of a worker: which copies it has read.
  void ExpectRead(const std::string& worker, const std::string& folder) {
    EXPECT_THAT(LogOf(worker), HasSubstr("reading " + folder)) << worker;
  }
  void ExpectToGoOnFromTwelve() {
    job_.spec.training.maxSteps = 20;
    Run({"--resume"});
    const std::string text = Events("TrainingStarted").back().at("text");
    EXPECT_THAT(text, testing::EndsWith("from version 12"));
    job_.spec.storage.regions.clear();  // of the reference
    ExpectReferenceBits();
  }

  static constexpr const char* kNewest = "step-00000012-g0";
};

TEST_F(SystemRegionStorageTest, EachWorkerGoesOnFromItsRegionsCopyIfHomeHasLostTheFiles) {
  Run();
  for (const std::string place : {"out/checkpoints", "eu", "us"}) {
    EXPECT_TRUE(Exists(place + "/" + kNewest + "/manifest.json")) << place;
  }
  EXPECT_THAT(Events("CheckpointCopied").back().at("text").get<std::string>(),
              AllOf(HasSubstr(kNewest), HasSubstr("of region ")));
  for (const auto& file : std::filesystem::directory_iterator(Path("out/checkpoints/") + kNewest)) {
    if (file.path().extension() == ".safetensors") std::filesystem::remove(file.path());
  }
  ExpectToGoOnFromTwelve();
  ExpectRead("worker-0", Path("eu/") + kNewest);
  ExpectRead("worker-1", Path("us/") + kNewest);
  ExpectRead("worker-2", Path("eu/") + kNewest);
}

TEST_F(SystemRegionStorageTest, AWorkerWhoseCopyIsDamagedTakesTheNextAndSaysSo) {
  Run();
  std::filesystem::remove_all(Path("us"));
  ASSERT_TRUE(WriteFile(Path("us"), "a file, where a folder should be").ok());
  for (const auto& file : std::filesystem::directory_iterator(Path("eu/") + kNewest)) {
    if (file.path().extension() != ".safetensors") continue;
    std::fstream content(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    content.seekp(-1, std::ios::end);
    content.put('\x7f');
  }
  ExpectToGoOnFromTwelve();
  EXPECT_THAT(LogOf("worker-0"),
              AllOf(HasSubstr("a copy is of no use: "), HasSubstr("is damaged"),
                    HasSubstr("going on with the copy in " + Path("out/checkpoints"))));
  EXPECT_THAT(LogOf("worker-1"), HasSubstr("no whole copy there: "));
  EXPECT_THAT(Events("CheckpointNotCopied").back().at("text").get<std::string>(),
              AllOf(HasSubstr("step-00000020-g0"), HasSubstr("of region us")));
}

TEST_F(SystemRegionStorageTest, AJobGoesOnFromACopyInABucketWithKeysOfItsOwnWhenHomeIsGone) {
  storage::s3::TestS3Server server;
  ::setenv("SWARM_STORAGE_EU_AWS_ACCESS_KEY_ID", server.access_key().c_str(), 1);
  ::setenv("SWARM_STORAGE_EU_AWS_SECRET_ACCESS_KEY", server.secret_key().c_str(), 1);
  job_.spec.storage.regions = {
      {.region = "eu", .checkpointUri = "s3://bucket/run", .endpoint = server.url()}};
  Run();
  EXPECT_THAT(LogOf("trainer"), Not(HasSubstr("CheckpointNotCopied")));
  std::filesystem::remove_all(Path("out/checkpoints"));
  ExpectToGoOnFromTwelve();
  ExpectRead("worker-0", "s3://bucket/run/" + std::string(kNewest));
  EXPECT_TRUE(Exists("out/checkpoints/step-00000020-g0/manifest.json"));
  ::unsetenv("SWARM_STORAGE_EU_AWS_ACCESS_KEY_ID");
  ::unsetenv("SWARM_STORAGE_EU_AWS_SECRET_ACCESS_KEY");
}

}  // namespace
}  // namespace swarm::tests
