#include "planner/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace swarm::planner {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Choice, WhatIsAbsentOrNullIsOpen) {
  const Open open = OpenIn(json::parse(R"({"spec": {
    "training": {"stepMode": "Sync", "microbatchSize": null},
    "pipeline": {"stages": 2, "boundary": {"blockSize": 64}},
    "workers": {"replicas": 0}}})"));
  EXPECT_EQ(open, (Open{.stages = false,
                        .codec = true,
                        .step_mode = false,
                        .microbatch = true,
                        .overlap = true,
                        .residency = true,
                        .layers = true,
                        .replicas = true}));
}

TEST(Choice, WhatTheManifestSaysStays) {
  json manifest = json::parse(R"({"spec": {
    "training": {"stepMode": "Sync"},
    "pipeline": {"inFlightMax": 6, "boundary": {"codec": "None"}},
    "workers": {"replicas": 0}}})");
  FillIn({.stages = 2,
          .layers = std::vector<std::uint64_t>{5},
          .codec = api::BoundaryCodec::kInt8,
          .stepMode = api::StepMode::kDelayed,
          .microbatchSize = 4,
          .inFlightMax = 8,
          .replicas = 3},
         &manifest);
  EXPECT_EQ(manifest, json::parse(R"({"spec": {
    "training": {"stepMode": "Sync", "microbatchSize": 4},
    "pipeline": {"stages": 2, "inFlightMax": 6, "boundary": {"codec": "None", "layers": [5]}},
    "workers": {"replicas": 3}}})"));
}

TEST(Choice, TheLowerOfTwoBoundsCounts) {
  json manifest = json::parse(R"({"spec": {"pipeline": {"inFlightMax": 12}}})");
  FillIn({.stages = 1, .inFlightMax = 8}, &manifest);
  EXPECT_EQ(manifest["spec"]["pipeline"]["inFlightMax"], 8);
}

TEST(Choice, OnlyWhatIsOpenIsChosen) {
  Plan plan;
  plan.way.spec.pipeline.stages = 2;
  plan.way.spec.training.microbatchSize = 4;
  plan.way.runs = {{0, 5}, {5, 7}};
  plan.prediction.tokens_per_second = 1000;
  plan.prediction.tokens_per_dollar = 1e8;
  plan.prediction.limit_stage = 1;
  const api::PlanChoice choice =
      ChoiceOf(plan, {.codec = false, .step_mode = false, .overlap = false, .replicas = false});
  EXPECT_EQ(choice, (api::PlanChoice{.stages = 2,
                                     .layers = std::vector<std::uint64_t>{5},
                                     .microbatchSize = 4,
                                     .tokensPerSecond = 1000,
                                     .limitedBy = "the devices of stage 1",
                                     .dollarsPerBillionTokens = 10}));
}

}  // namespace
}  // namespace swarm::planner
