#include "ctl/plan/auto_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/manifest.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr double kGibibyte = 1 << 30;

/// 12 layers of 13 M parameters and two tables of 33 M: 220 M, 6 GB with all that a worker holds.
json Manifest() {
  return json::parse(R"({
    "apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "auto"},
    "spec": {
      "model": {"config": {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 8,
                           "intermediate_size": 2816, "vocab_size": 32000}},
      "data": {"uri": "corpus.txt"},
      "training": {"maxSteps": 3, "globalBatchSize": 64, "sequenceLength": 512},
      "pipeline": {"stages": "Auto"}}})");
}

/// The pipeline that a machine with so many workers and GiB of memory gets.
json Choose(std::uint64_t workers, double gibibytes, json manifest = Manifest()) {
  EXPECT_TRUE(api::TakeAutoStages(&manifest));
  std::string said;
  const auto chosen = ChooseStages(manifest, {workers, gibibytes * kGibibyte}, &said);
  if (!chosen.ok()) return api::ToString(chosen.errors());
  EXPECT_TRUE(api::ParseManifest(*chosen).ok());
  EXPECT_EQ(chosen->at("spec").at("workers").at("replicas"), workers);
  EXPECT_EQ(chosen->at("spec").at("training"), manifest.at("spec").at("training"));
  EXPECT_THAT(said, HasSubstr("stages: Auto is "));
  return chosen->at("spec").at("pipeline");
}

TEST(AutoStages, AModelThatFitsHasOneStage) {
  for (const std::uint64_t workers : {1, 4}) {
    const json pipeline = Choose(workers, 64);
    EXPECT_EQ(pipeline.at("stages"), 1u);
    EXPECT_FALSE(pipeline.contains("residency"));
  }
}

TEST(AutoStages, OneThatFitsInNoWorkerIsCutForSeveral) {
  const json pipeline = Choose(4, 20);
  EXPECT_GT(pipeline.at("stages"), 1u);
  EXPECT_FALSE(pipeline.contains("residency")) << pipeline;
}

TEST(AutoStages, OneThatFitsNowhereIsSwapped) {
  const json pipeline = Choose(1, 5);
  EXPECT_EQ(pipeline.at("stages"), 1u);
  EXPECT_EQ(pipeline.at("residency"), "Swap");
}

TEST(AutoStages, WhereTheUserWantsItInMemoryItIsRefusedWithWhatWouldHelp) {
  json manifest = Manifest();
  manifest["spec"]["pipeline"]["residency"] = "Resident";
  const std::string refusal = Choose(1, 5, manifest);
  EXPECT_THAT(refusal,
              HasSubstr("spec.pipeline.stages: is Auto, and no number of stages has room"));
  EXPECT_THAT(refusal, HasSubstr("; pipeline.residency: Swap; or memory of "));
}

TEST(AutoStages, ANumberIsTheUsers) {
  json manifest = Manifest();
  manifest["spec"]["pipeline"]["stages"] = 3;
  EXPECT_FALSE(api::TakeAutoStages(&manifest));
  EXPECT_EQ(manifest.at("spec").at("pipeline").at("stages"), 3);
}

}  // namespace
}  // namespace swarm::ctl
