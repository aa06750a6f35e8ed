// The copies of a job's checkpoints follow home's, and never hinder it.
#include "worker/trainer/checkpoints/copier.h"

#include <gmock/gmock.h>

#include <fstream>
#include <future>
#include <optional>

#include "base/testing/temporary_folder.h"
#include "worker/trainer/checkpoints/beginning.h"
#include "worker/trainer/checkpoints/publish.h"

namespace swarm::trainer {
namespace {

using checkpoint::CheckpointId;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CopierTest : public testing::Test {
 protected:
  CopierTest() {
    job_.name = "job";
    job_.spec.checkpoint.uri = Uri("home");
    job_.spec.checkpoint.keepLast = 2;
    job_.spec.storage.regions = {{.region = "eu", .checkpointUri = Uri("eu")}};
    copier_.emplace(job_, storage::Place{.region = "eu", .uri = Uri("eu")},
                    [this](const CopyReport& report) { reports_.push_back(report); });
  }

  std::string Uri(const std::string& place) {
    return "file://" + (folder_.path() / place).string();
  }
  static CheckpointId Id(std::uint64_t version) { return {{}, protocol::Version(version)}; }

  void Publish(std::uint64_t version) {
    const auto storage = *storage::Storage::Open(job_.spec.checkpoint.uri);
    const float weight = static_cast<float>(version);
    const std::vector<checkpoint::NamedTensor> tensors{
        {"weight", checkpoint::ElementType::kF32, {1}, Bytes::Copy(&weight, sizeof weight)}};
    const auto files = checkpoint::WriteStageFiles(*storage, Id(version).Folder(), 0, 1, tensors);
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    const Status published = PublishCheckpoint(
        *storage, job_, {},
        {.version = protocol::Version(version), .stage_count = 1, .files = *files});
    ASSERT_TRUE(published.ok()) << published.ToString();
  }
  void Copy() {
    copier_->Copy();
    std::promise<void> done;
    copier_->WhenDone([&] { done.set_value(); });
    done.get_future().wait();
  }
  std::vector<CheckpointId> In(const std::string& place) {
    return *checkpoint::ListCheckpoints(**storage::Storage::Open(Uri(place)));
  }

  TemporaryFolder folder_;
  api::SwarmJob job_;
  std::vector<CopyReport> reports_;
  std::optional<Copier> copier_;
};

TEST_F(CopierTest, CopiesAreKeptAndRemovedAsAtHome) {
  for (const std::uint64_t version : {1, 2, 3}) {
    Publish(version);
    Copy();
  }
  EXPECT_THAT(In("home"), ElementsAre(Id(3), Id(2)));
  EXPECT_THAT(In("eu"), ElementsAre(Id(3), Id(2)));
  ASSERT_EQ(reports_.size(), 3u);
  EXPECT_THAT(reports_[0].Text(),
              AllOf(HasSubstr(Id(1).Folder() + " is in " + Uri("eu")), HasSubstr("region eu")));
  Copy();
  EXPECT_EQ(reports_.size(), 3u) << "nothing was new";
}

TEST_F(CopierTest, ACopyThatFailsIsToldAndMadeWithTheNextCheckpoint) {
  std::ofstream(folder_.path() / "eu") << "a file, where a folder should be";
  Publish(1);
  Copy();
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_FALSE(reports_[0].status.ok());
  EXPECT_THAT(reports_[0].Text(), AllOf(HasSubstr(Id(1).Folder() + " is not in " + Uri("eu")),
                                        HasSubstr("tried again with the next")));
  std::filesystem::remove(folder_.path() / "eu");
  Publish(2);
  Copy();
  EXPECT_THAT(In("eu"), ElementsAre(Id(2)));
}

TEST_F(CopierTest, AFolderWithTheCheckpointsOfAnotherJobIsLeftAlone) {
  job_.name = "other";
  job_.spec.checkpoint.uri = Uri("eu");
  Publish(1);
  job_.name = "job";
  job_.spec.checkpoint.uri = Uri("home");
  Publish(2);
  Copy();
  EXPECT_THAT(In("eu"), ElementsAre(Id(1)));
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_THAT(reports_[0].Text(), HasSubstr("the checkpoints of the job other"));
}

TEST_F(CopierTest, AJobWhoseHomeHasLostEverythingBeginsWithTheCopy) {
  Publish(1);
  Publish(2);
  Copy();
  std::filesystem::remove_all(folder_.path() / "home");
  const auto beginning = FindBeginning(job_, /*resume=*/true, Look::kFiles);
  ASSERT_TRUE(beginning.ok()) << beginning.status().ToString();
  EXPECT_EQ(beginning->version, protocol::Version(2));
  EXPECT_EQ(beginning->checkpoint_uri, Uri("home") + "/" + Id(2).Folder());
  EXPECT_NE(beginning->manifest, Digest{});
}

TEST_F(CopierTest, ACheckpointThatIsDamagedAtHomeAloneCounts) {
  Publish(1);
  Copy();
  std::filesystem::remove(folder_.path() / "home" / Id(1).Folder() / "stage-0-of-1.safetensors");
  const auto beginning = FindBeginning(job_, /*resume=*/true, Look::kFiles);
  ASSERT_TRUE(beginning.ok()) << beginning.status().ToString();
  EXPECT_EQ(beginning->version, protocol::Version(1));
  EXPECT_THAT(beginning->damaged, IsEmpty());
}

TEST_F(CopierTest, ANewJobIsNotBegunOverTheCopiesOfAnEarlierOne) {
  Publish(1);
  Copy();
  std::filesystem::remove_all(folder_.path() / "home");
  const auto beginning = FindBeginning(job_, /*resume=*/false, Look::kManifest);
  EXPECT_EQ(beginning.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(beginning.status().message(), AllOf(HasSubstr(Uri("eu")), HasSubstr("--resume")));
}

}  // namespace
}  // namespace swarm::trainer
