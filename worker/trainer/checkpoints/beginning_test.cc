// A job that goes on from a checkpoint trains the checkpoint's model.
#include "worker/trainer/checkpoints/beginning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "base/testing/temporary_folder.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/trainer/checkpoints/publish.h"

namespace swarm::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Change = std::function<void(api::DecoderConfig&)>;

class BeginningTest : public ::testing::Test {
 protected:
  BeginningTest() {
    job_.name = "job";
    job_.spec.model.config = {.hidden_size = 32,
                              .num_hidden_layers = 4,
                              .num_attention_heads = 4,
                              .num_key_value_heads = 2,
                              .head_dim = 8,
                              .intermediate_size = 64,
                              .vocab_size = 256};
    job_.spec.pipeline.stages = 2;
    job_.spec.checkpoint.uri = folder_.path().string();
  }

  /// Trains and leaves the checkpoint of a step.
  void Train() {
    const auto storage = storage::Storage::Open(job_.spec.checkpoint.uri);
    ASSERT_TRUE(storage.ok()) << storage.status().ToString();
    const checkpoint::CheckpointId id{{}, protocol::Version(1)};
    const float weight = 1;
    const std::vector<checkpoint::NamedTensor> tensors{
        {"weight", checkpoint::ElementType::kF32, {1}, Bytes::Copy(&weight, sizeof weight)}};
    const auto files = checkpoint::WriteStageFiles(**storage, id.Folder(), 0, 1, tensors);
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    const Status published = PublishCheckpoint(
        **storage, job_, {}, {.version = id.version, .stage_count = 1, .files = *files});
    ASSERT_TRUE(published.ok()) << published.ToString();
  }

  /// The status of a job that goes on from there, with this change of its model's config.
  Status GoOnWith(const Change& change) const {
    api::SwarmJob job = job_;
    change(job.spec.model.config);
    const auto beginning = FindBeginning(job, /*resume=*/true, Look::kManifest);
    if (!beginning.ok()) return beginning.status();
    EXPECT_EQ(beginning->version, protocol::Version(1));
    return ResolveBoundary(&job, job.spec.pipeline.stages, *beginning);
  }

  TemporaryFolder folder_;
  api::SwarmJob job_;
};

TEST_F(BeginningTest, AJobGoesOnWithTheSameModel) {
  Train();
  const Status status = GoOnWith([](api::DecoderConfig&) {});
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_F(BeginningTest, ADamagedCheckpointIsSetAsideWhenItsFilesAreLookedAt) {
  Train();
  const std::string weights = folder_ / "step-00000001-g0/stage-0-of-1.safetensors";
  {
    std::fstream file(weights, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put(0x55);
  }
  EXPECT_EQ(FindBeginning(job_, true, Look::kManifest)->version, protocol::Version(1))
      << "workers look at the files";
  const auto beginning = FindBeginning(job_, true, Look::kFiles);
  ASSERT_TRUE(beginning.ok()) << beginning.status().ToString();
  EXPECT_EQ(beginning->version, protocol::Version(0));
  ASSERT_EQ(beginning->damaged.size(), 1u);
  EXPECT_NE(beginning->damaged[0].find(weights), std::string::npos) << beginning->damaged[0];
  EXPECT_TRUE(FindBeginning(job_, true, Look::kManifest)->checkpoint_uri.empty());
}

TEST_F(BeginningTest, AnotherModelIsRefusedAlsoWhereItsTensorsHaveTheSameShapes) {
  Train();
  const std::vector<Change> changes{
      [](api::DecoderConfig& config) {
        config.num_attention_heads = 8;
        config.num_key_value_heads = 4;
        config.head_dim = 4;
      },
      [](api::DecoderConfig& config) { config.num_hidden_layers = 3; },
      [](api::DecoderConfig& config) { config.rms_norm_eps = 1e-5; },
      [](api::DecoderConfig& config) { config.tie_word_embeddings = true; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(GoOnWith(changes[i]).code(), StatusCode::kFailedPrecondition) << i;
  }
  EXPECT_THAT(GoOnWith([](api::DecoderConfig& config) {
                config.rope.type = api::RopeType::kLinear;
                config.rope.factor = 2;
              }).message(),
              AllOf(HasSubstr("rope_scaling null"), HasSubstr("linear")));
  const Status status = GoOnWith([](api::DecoderConfig& config) { config.rope.theta = 500000; });
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("step-00000001-g0"), HasSubstr("rope_theta"),
                                      HasSubstr("10000.0"), HasSubstr("500000.0")));
}

TEST_F(BeginningTest, TheAdaptersOfACheckpointAreThoseOfTheJob) {
  job_.spec.model.lora = {.rank = 4, .targets = {"q_proj"}};
  Train();
  EXPECT_TRUE(GoOnWith([](api::DecoderConfig&) {}).ok());
  for (const api::Lora& other : {api::Lora{}, api::Lora{.rank = 4, .alpha = 8},
                                 api::Lora{.rank = 4, .targets = {"v_proj"}}}) {
    job_.spec.model.lora = other;
    const Status status = GoOnWith([](api::DecoderConfig&) {});
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("spec.model.lora"));
  }
}

TEST_F(BeginningTest, LongerSequencesAndTheRangeOfAStartThatIsOverMayChange) {
  job_.spec.pipeline.boundary = {
      .codec = api::BoundaryCodec::kAnchored, .rank = 8, .layers = std::vector<std::uint64_t>{2}};
  Train();
  const Status status = GoOnWith([](api::DecoderConfig& config) {
    config.max_position_embeddings = 4096;
    config.initializer_range = 0.01;
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST_F(BeginningTest, TheRangeOfTheStartStaysWhereATableOfItIsKept) {
  job_.spec.pipeline.boundary = {
      .codec = api::BoundaryCodec::kSubspace, .rank = 8, .layers = std::vector<std::uint64_t>{2}};
  Train();
  EXPECT_TRUE(GoOnWith([](api::DecoderConfig&) {}).ok());
  const Status status =
      GoOnWith([](api::DecoderConfig& config) { config.initializer_range = 0.01; });
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("initializer_range"), HasSubstr("0.02"), HasSubstr("0.01")));
}

TEST_F(BeginningTest, WhatAnOlderCheckpointDoesNotSayIsNoDifference) {
  for (const std::string text : {"", "{}", R"({"hidden_size": 32, "rope_theta": null})"}) {
    api::SwarmJob job = job_;
    const Beginning beginning{.checkpoint_uri = "old", .config_json = text};
    const Status status = ResolveBoundary(&job, 2, beginning);
    EXPECT_TRUE(status.ok()) << text << status.ToString();
  }
  api::SwarmJob job = job_;
  const Beginning narrower{.checkpoint_uri = "old", .config_json = R"({"hidden_size": 16})"};
  EXPECT_EQ(ResolveBoundary(&job, 2, narrower).code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace swarm::trainer
