// What a plan predicts, by numbers worked out by hand, and what must hold of any plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/model/decoder_config.h"
#include "planner/choice.h"
#include "planner/cuts.h"
#include "planner/search.h"
#include "planner/short_pipeline.h"
#include "planner/stage_memory.h"
#include "worker/protocol/grid/reduce_grid.h"
#include "worker/protocol/routing/router.h"

namespace swarm::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A model whose layers cost the same, and whose head costs next to nothing.
api::SwarmJob Job(std::int64_t layers = 12) {
  api::SwarmJob job;
  api::DecoderConfig& config = job.spec.model.config;
  config.hidden_size = 1024;
  config.num_hidden_layers = layers;
  config.num_attention_heads = config.num_key_value_heads = 8;
  config.head_dim = 128;
  config.intermediate_size = 4096;
  config.vocab_size = 256;
  job.spec.training.globalBatchSize = 64;
  job.spec.training.sequenceLength = 512;
  return job;
}

Machines Group(const std::string& name, std::uint64_t count, double teraflops) {
  return {.name = name, .count = count, .flops = teraflops * 1e12};
}

Request Of(api::SwarmJob job, std::vector<Machines> groups, std::vector<Link> links = {}) {
  return {.job = std::move(job), .fleet = {.groups = std::move(groups), .links = std::move(links)}};
}

/// Nothing is left out of the manifest, with so many stages.
Request Fixed(Request request, std::uint64_t stages) {
  request.open = {
      .stages = false, .codec = false, .step_mode = false, .microbatch = false, .segments = false};
  request.job.spec.pipeline.stages = stages;
  return request;
}

std::vector<std::uint64_t> LayersOf(const Plan& plan) {
  std::vector<std::uint64_t> counts;
  for (const Run& run : plan.way.runs) counts.push_back(run.count);
  return counts;
}

TEST(Planner, AParameterCountIsTheModelsOwn) {
  const api::SwarmJob job = Job();
  const ModelCosts model(job.spec);
  EXPECT_EQ(model.ParametersOf({0, 12}).all(), api::ParameterCount(job.spec.model.config));
  EXPECT_EQ(model.ParametersOf({0, 5}).all() + model.ParametersOf({5, 7}).all(),
            api::ParameterCount(job.spec.model.config));
}

TEST(Planner, ATiedTableIsInBothStagesAndOnceInOneThatIsBoth) {
  api::SwarmJob job = Job();
  job.spec.model.config.tie_word_embeddings = true;
  const ModelCosts model(job.spec);
  const std::uint64_t all = api::ParameterCount(job.spec.model.config);
  EXPECT_EQ(model.ParametersOf({0, 12}).all(), all);
  EXPECT_EQ(model.ParametersOf({0, 5}).all() + model.ParametersOf({5, 7}).all(), all + 256 * 1024);
}

TEST(Planner, WorkIsSixOperationsAParameterAndThatOfTheScores) {
  const api::SwarmJob job = Job();
  const ModelCosts model(job.spec);
  // A layer: 4 hidden^2 of attention, 3 x 4 hidden^2 of the MLP, two norms; twelve times half the
  // sequence and the width for scores and values.
  const double layer = 16.0 * 1024 * 1024 + 2 * 1024;
  EXPECT_DOUBLE_EQ(model.Flops({3, 1}), 6 * layer + 12.0 * 256 * 1024);
  EXPECT_DOUBLE_EQ(model.Flops({11, 1}) - model.Flops({3, 1}), 6.0 * 256 * 1024);
}

/// With adapters of rank 8 at two matrices [1024, 1024] of each layer.
api::SwarmJob JobWithAdapters() {
  api::SwarmJob job = Job();
  job.spec.model.lora = {.rank = 8, .targets = {"q_proj", "v_proj"}};
  return job;
}

TEST(Planner, AdaptersAreTrainedAndTheModelStays) {
  const api::SwarmJob job = JobWithAdapters();
  const ModelCosts model(job.spec), whole(Job().spec);
  EXPECT_EQ(model.ParametersOf({0, 12}).frozen, api::ParameterCount(job.spec.model.config));
  EXPECT_EQ(model.ParametersOf({3, 2}).trained, 2u * 2 * 8 * (1024 + 1024));
  EXPECT_EQ(whole.ParametersOf({0, 12}).frozen, 0u);
  // No gradients of the model's weights: two of their three products, and all three of the
  // adapters'. Scores are as without.
  const double layer = 16.0 * 1024 * 1024 + 2 * 1024, adapters = 2.0 * 8 * (1024 + 1024);
  EXPECT_DOUBLE_EQ(model.Flops({3, 1}), 4 * layer + 6 * adapters + 12.0 * 256 * 1024);
  EXPECT_DOUBLE_EQ(model.Flops({11, 1}) - model.Flops({3, 1}), 4.0 * 256 * 1024);
  EXPECT_DOUBLE_EQ(model.ForwardShare() * model.Flops({3, 1}),
                   2 * (layer + adapters) + 4.0 * 256 * 1024);
}

TEST(Planner, AdaptersNeedLittleMemoryAndSmallSums) {
  Request request = Fixed(Of(JobWithAdapters(), {Group("t", 2, 10)}), 1);
  Machines& group = request.fleet.groups[0];
  group.upload = group.download = 4e8;
  const Prediction p = FindPlans(request).plans.front().prediction;
  EXPECT_NEAR(p.reduce_seconds, 12 * 4.0 * 2 * 8 * (1024 + 1024) / 4e8, 1e-6);
  request.job = Job();
  const Prediction whole = FindPlans(request).plans.front().prediction;
  EXPECT_LT(p.stages[0].memory_bytes, whole.stages[0].memory_bytes / 2);
  EXPECT_GT(p.tokens_per_second, whole.tokens_per_second);
}

TEST(Planner, TheUpdateOfSwappedAdaptersReadsWhatLiesBesideThem) {
  Request request = Fixed(Of(JobWithAdapters(), {Group("t", 1, 1)}), 1);
  request.open.residency = false;
  request.job.spec.pipeline.residency = api::Residency::kSwap;
  request.fleet.groups[0].disk = 1e9;
  const ModelCosts model(request.job.spec);
  const Parameters all = model.ParametersOf({0, 12});
  // Two pieces of 4 MiB in each layer have an adapter.
  const double shared = 2 * double{4 << 20} / (4 * static_cast<double>(model.layer().all()));
  EXPECT_NEAR(FindPlans(request).plans.front().prediction.update_seconds,
              ((24 + 12 * shared + 8) * static_cast<double>(all.trained) +
               4 * shared * static_cast<double>(all.frozen)) /
                  1e9,
              1e-9);
}

TEST(Planner, AFasterDeviceGetsMoreLayers) {
  // Three times as fast: nine of twelve layers, and both devices are busy all the time.
  const Plans found = FindPlans(Fixed(Of(Job(), {Group("fast", 1, 3), Group("slow", 1, 1)}), 2));
  ASSERT_FALSE(found.plans.empty());
  const Plan& best = found.plans.front();
  EXPECT_THAT(LayersOf(best), ElementsAre(9, 3));
  EXPECT_EQ(best.way.machines[0][0], 1u);
  EXPECT_EQ(best.way.machines[1][1], 1u);
}

TEST(Planner, AStageWithMoreReplicasGetsMoreLayers) {
  const Plans found = FindPlans(Fixed(Of(Job(), {Group("t", 3, 1)}), 2));
  ASSERT_FALSE(found.plans.empty());
  EXPECT_THAT(LayersOf(found.plans.front()), ElementsAre(8, 4));
  EXPECT_EQ(found.plans.front().way.machines[0][0], 2u);
}

TEST(Planner, MachinesGoWhereATrainerPutsThem) {
  // Stages of 2, 1 and 1: a fast machine to the stage that lacks two, and then to each in turn.
  Request request = Fixed(Of(Job(), {Group("fast", 2, 4), Group("slow", 2, 1)}), 3);
  request.open.replicas = false;
  request.job.spec.workers.replicas = 4;
  const Plans found = FindPlans(request);
  ASSERT_FALSE(found.plans.empty());
  EXPECT_THAT(found.plans.front().way.machines,
              ElementsAre(ElementsAre(2, 0), ElementsAre(0, 1), ElementsAre(0, 1)));
  EXPECT_THAT(LayersOf(found.plans.front()), ElementsAre(10, 1, 1));
}

TEST(Planner, MachinesInOrderAreNotPassedOver) {
  // The slow ones make the step longer, but a job's pools are filled from the first one on.
  Request request = Fixed(Of(Job(), {Group("slow", 2, 0.01), Group("fast", 2, 10)}), 2);
  EXPECT_THAT(FindPlans(request).plans.front().way.machines,
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1)));
  request.in_order = true;
  for (const Plan& plan : FindPlans(request).plans) {
    EXPECT_GE(plan.way.machines[0][0] + plan.way.machines[1][0], 2u);
  }
}

TEST(Planner, ASyncStepIsWorkFillAndDrainAndCommit) {
  Request request = Fixed(Of(Job(), {Group("t", 2, 1)}, {{"*", "*", 0.1}}), 2);
  request.job.spec.pipeline.boundary.codec = api::BoundaryCodec::kNone;
  const Plans found = FindPlans(request);
  const Prediction& p = found.plans.front().prediction;
  const ModelCosts model(request.job.spec);
  const double head = model.Flops({6, 6}) * 512 / 1e12, other = model.Flops({0, 6}) * 512 / 1e12;
  // 64 microbatches of the stage with the head; before the first of them, and behind the last, the
  // other stage; two ways; and four of the trainer's messages.
  EXPECT_NEAR(p.step_seconds, 64 * head + other + 2 * 0.05 + 4 * 0.05, 1e-9);
  EXPECT_EQ(p.limit, Limit::kCompute);
}

TEST(Planner, ASlowLinkIsABoundAndACodecLowersIt) {
  // A boundary in float32 is 512 x 1024 x 4 bytes: two megabytes take 2.1 s at a megabyte a second.
  Request request = Fixed(Of(Job(), {Group("t", 2, 10)}, {{"*", "*", 0, 1e6}}), 2);
  const Plans plain = FindPlans(request);
  EXPECT_EQ(plain.plans.front().prediction.limit, Limit::kConnection);
  EXPECT_NEAR(plain.plans.front().prediction.bound_seconds, 64 * 2.097152, 1e-6);
  request.open.codec = true;
  const Plans found = FindPlans(request);
  const Plan& best = found.plans.front();
  EXPECT_EQ(best.way.spec.pipeline.boundary.codec, api::BoundaryCodec::kInt8);
  // A byte a number, and four for each block of 256.
  EXPECT_NEAR(best.prediction.bound_seconds, 64 * 2.097152 / 4 * (1 + 4.0 / 256), 1e-6);
  // With links that are fast enough the plainest codec wins.
  ASSERT_EQ(found.plans.size(), 3u);
  ASSERT_TRUE(found.turns[1].faster_links.has_value());
  EXPECT_GT(*found.turns[1].faster_links, 1);
  EXPECT_FALSE(found.turns[1].slower_links.has_value());
}

TEST(Planner, DelayedHidesALongReduce) {
  // Two replicas exchange 4 bytes of each of 200 M parameters in 2 s, and compute as long.
  Request request = Fixed(Of(Job(), {Group("t", 2, 10)}), 1);
  request.fleet.groups[0].upload = request.fleet.groups[0].download = 4e8;
  request.open.step_mode = true;
  const Plans found = FindPlans(request);
  ASSERT_EQ(found.plans.size(), 2u);
  const Plan& best = found.plans.front();
  EXPECT_EQ(best.way.spec.training.stepMode, api::StepMode::kDelayed);
  const double bytes =
      4.0 * static_cast<double>(api::ParameterCount(request.job.spec.model.config));
  EXPECT_NEAR(best.prediction.reduce_seconds, bytes / 4e8, 1e-9);
  EXPECT_GT(best.prediction.tokens_per_second, 1.9 * found.plans[1].prediction.tokens_per_second);
}

TEST(Planner, OneStepIsSummedAtATimeHoweverWideTheLines) {
  // Four replicas exchange over connections of 5e7 bytes a second each, and work for less long.
  Request request = Fixed(Of(Job(), {Group("t", 4, 10)}, {{"*", "*", 0, 5e7}}), 1);
  request.open.replicas = false;
  request.job.spec.workers.replicas = 4;
  request.job.spec.training.stepMode = api::StepMode::kDelayed;
  const Prediction plan = FindPlans(request).plans.front().prediction;
  const double bytes =
      4.0 * static_cast<double>(api::ParameterCount(request.job.spec.model.config));
  EXPECT_NEAR(plan.reduce_seconds, 2 * bytes / 4 / 5e7, 1e-6)
      << "a quarter to each, there and back";
  EXPECT_NEAR(plan.step_seconds, plan.reduce_seconds, 1e-6);
  EXPECT_EQ(plan.limit, Limit::kSum);
}

TEST(Planner, ASumOverRegionsCrossesAsOftenAsItMust) {
  // Three regions of four replicas: within them lines are wide, between them they are not.
  std::vector<Machines> groups;
  for (const char* region : {"a", "b", "c"}) {
    groups.push_back(Group(region, 4, 10));
    groups.back().region = region;
    groups.back().upload = groups.back().download = 1e9;
  }
  const std::vector<Link> links = {{"*", "*", 0, 1e7, 1e-9}, {"a", "a"}, {"b", "b"}, {"c", "c"}};
  Request request = Fixed(Of(Job(), groups, links), 1);
  request.open.replicas = false;
  request.job.spec.workers.replicas = 12;
  const Prediction plan = FindPlans(request).plans.front().prediction;
  const double bytes =
      4.0 * static_cast<double>(api::ParameterCount(request.job.spec.model.config));
  EXPECT_NEAR(plan.reduce_region_bytes, protocol::LeastCrossings(3) * bytes, 1);
  EXPECT_NEAR(plan.boundary_region_bytes, 0, 1e-6) << "there is one stage";
  // Each owns a twelfth, and heads one twelfth of each other region: to each of two others it sends
  // its region's sum of one piece, and the sum of its own.
  EXPECT_NEAR(plan.reduce_seconds, 2 * bytes / 12 / 1e7, 1e-3 * plan.reduce_seconds);
  EXPECT_NEAR(plan.dollars_per_hour, plan.reduce_region_bytes / plan.step_seconds * 3600 * 1e-9,
              1e-6);
  // If all are in one region, nothing crosses.
  for (Machines& group : request.fleet.groups) group.region = "a";
  request.fleet.links = {{"*", "*", 0, 1e7}};
  const Prediction one = FindPlans(request).plans.front().prediction;
  EXPECT_EQ(one.reduce_region_bytes, 0);
}

TEST(Planner, MachinesThatOnlyAddAReduceStayIdle) {
  // A second replica would halve 6 s of work, and add a sum of 80 s.
  Request request = Fixed(Of(Job(), {Group("t", 2, 10)}), 1);
  request.fleet.groups[0].upload = request.fleet.groups[0].download = 1e7;
  const Plans found = FindPlans(request);
  EXPECT_EQ(found.plans.front().way.machines[0][0], 1u);
}

TEST(Planner, MemoryLimitsWhatIsInFlight) {
  Request request = Fixed(Of(Job(), {Group("t", 4, 1)}, {{"*", "*", 2}}), 2);
  request.open.replicas = false;
  request.job.spec.workers.replicas = 4;
  const Prediction roomy = FindPlans(request).plans.front().prediction;
  EXPECT_FALSE(roomy.in_flight_max.has_value());
  EXPECT_EQ(roomy.limit, Limit::kCompute);
  const ModelCosts model(request.job.spec);
  Machines& group = request.fleet.groups[0];
  group.memory_bytes = LeastMemory(request.job.spec, model, group, {6, 6}, false) * 1.001;
  const Prediction tight = FindPlans(request).plans.front().prediction;
  ASSERT_TRUE(tight.in_flight_max.has_value());
  EXPECT_EQ(tight.limit, Limit::kInFlight);
  EXPECT_GT(tight.bound_seconds, roomy.bound_seconds);
}

TEST(Planner, AShortPipelineIsAsFastAsItsRoomAllows) {
  // Two stages of 1 s forward and 2 s backward, half a second apart.
  const ShortStage stage = {.forward = 1, .backward = 2, .way = 0.5, .back_way = 0.5};
  // One at a time: 6 s of work and a second on its way.
  EXPECT_NEAR(ShortPipelineRate({stage, stage}, 1), 1.0 / 7, 1e-9);
  // With room for many, stages never wait.
  EXPECT_NEAR(ShortPipelineRate({stage, stage}, 8), 1.0 / 3, 1e-9);
  const double two = ShortPipelineRate({stage, stage}, 2);
  EXPECT_GT(two, 1.0 / 7);
  EXPECT_LT(two, 1.0 / 3);
  // Four pipelines beside each other.
  ShortStage wide = stage;
  wide.replicas = 4;
  EXPECT_NEAR(ShortPipelineRate({wide, wide}, 2), 4 * two, 1e-9);
}

TEST(Planner, AManifestLetsAWorkerHoldWhatHidesALongWay) {
  // Work of milliseconds, half a second from here to there.
  Request request = Fixed(Of(Job(), {Group("t", 4, 200)}, {{"*", "*", 0.5}}), 2);
  request.job.spec.training.stepMode = api::StepMode::kDelayed;
  request.job.spec.training.globalBatchSize = 4096;
  const Prediction p = FindPlans(request).plans.front().prediction;
  EXPECT_EQ(p.limit, Limit::kCompute);
  ASSERT_TRUE(p.in_flight_max.has_value());
  EXPECT_GT(*p.in_flight_max, 2 * protocol::kInFlightPerStage) << "a trainer allows this of itself";
  const api::PlanChoice choice = ChoiceOf(FindPlans(request).plans.front(), request.open);
  EXPECT_EQ(choice.inFlightMax, p.in_flight_max);
  // To the first worker, to the second, back, and to the trainer: two round trips for 64 in the two
  // workers of a stage.
  request.job.spec.pipeline.inFlightMax = 32;
  const Prediction held = FindPlans(request).plans.front().prediction;
  EXPECT_EQ(held.limit, Limit::kInFlight);
  EXPECT_EQ(held.in_flight_max, 32u);
  EXPECT_GE(held.step_seconds, 4096 * 1.0 / 64);
  EXPECT_LE(held.step_seconds, 4096 * 1.05 / 64);
  // As many as a trainer allows of itself hide the way of longer ones.
  request.job.spec.pipeline.inFlightMax = 0;
  request.job.spec.training.microbatchSize = 64;
  const Prediction longer = FindPlans(request).plans.front().prediction;
  EXPECT_EQ(longer.limit, Limit::kCompute);
  EXPECT_FALSE(longer.in_flight_max.has_value());
}

TEST(Planner, ANumberOfReplicasThatIsSaidIsMetInALargeFleetToo) {
  Request request = Fixed(Of(Job(), {Group("a", 100, 10)}), 2);
  request.open.replicas = false;
  for (const std::uint64_t replicas : {3, 40, 99}) {
    request.job.spec.workers.replicas = replicas;
    const auto plans = FindPlans(request).plans;
    ASSERT_FALSE(plans.empty()) << replicas;
    EXPECT_EQ(
        plans.front().prediction.stages[0].machines + plans.front().prediction.stages[1].machines,
        replicas);
  }
  request.fleet.groups.push_back(Group("b", 50, 5));
  request.job.spec.workers.replicas = 117;
  const Plan both = FindPlans(request).plans.front();
  EXPECT_EQ(both.way.machines[0][0] + both.way.machines[1][0], 100u);
  EXPECT_EQ(both.way.machines[0][1] + both.way.machines[1][1], 17u);
}

TEST(Planner, ManyStagesAreFoundWhereEachHasRoomForFewLayers) {
  Request request = Of(Job(80), {Group("small", 27, 1)});
  const ModelCosts model(request.job.spec);
  Machines& group = request.fleet.groups[0];
  group.memory_bytes = LeastMemory(request.job.spec, model, group, {0, 3}, true) * 1.05;
  const auto plans = FindPlans(request).plans;
  ASSERT_FALSE(plans.empty());
  EXPECT_THAT(LayersOf(plans.front()), testing::Each(testing::Le(3u)));
  EXPECT_EQ(plans.front().way.runs.size(), 27u);
}

TEST(Planner, AJobThatFitsNowhereIsToldWhatWouldHelp) {
  Request request = Fixed(Of(Job(), {Group("small", 4, 1)}), 1);
  const ModelCosts model(request.job.spec);
  Machines& group = request.fleet.groups[0];
  const double needed = LeastMemory(request.job.spec, model, group, {0, 12}, true);
  group.memory_bytes = needed / 2;
  const Plans found = FindPlans(request);
  EXPECT_TRUE(found.plans.empty());
  EXPECT_THAT(found.changes, testing::Contains(HasSubstr("pipeline.stages: ")));
  char memory[64];
  std::snprintf(memory, sizeof memory, "memory of %.3g GiB in machines small", needed / (1 << 30));
  EXPECT_THAT(found.changes, testing::Contains(HasSubstr(memory)));
}

TEST(Planner, ADeviceThatIsSmallLeavesMastersAndMomentsToTheHost) {
  Request request = Fixed(Of(Job(), {Group("gpu", 1, 1)}), 1);
  const ModelCosts model(request.job.spec);
  Machines& group = request.fleet.groups[0];
  group.device_bytes = 1e12;
  const auto needs = [&](api::Residency residency) {
    request.job.spec.pipeline.residency = residency;
    return LeastMemory(request.job.spec, model, group, {0, 12}, true);
  };
  const double resident = needs(api::Residency::kResident);
  const double offload = needs(api::Residency::kOffload);
  ASSERT_LT(offload, resident);
  group.device_bytes = (resident + offload) / 2;
  request.job.spec.pipeline.residency = std::nullopt;
  EXPECT_FALSE(FindPlans(request).plans.empty());
  request.job.spec.pipeline.residency = api::Residency::kResident;
  const Plans found = FindPlans(request);
  EXPECT_TRUE(found.plans.empty());
  EXPECT_THAT(found.changes, testing::Contains("pipeline.residency: Offload"));
}

TEST(Planner, AModelThatFitsNowhereIsSwappedWhereThereIsADisk) {
  Request request = Fixed(Of(Job(), {Group("small", 1, 1)}), 1);
  request.open.microbatch = false;
  const ModelCosts model(request.job.spec);
  Machines& group = request.fleet.groups[0];
  group.memory_bytes = LeastMemory(request.job.spec, model, group, {0, 12}, true) / 2;
  EXPECT_TRUE(FindPlans(request).plans.empty());
  group.disk = 1e9;
  const Plans found = FindPlans(request);
  ASSERT_EQ(found.plans.size(), 1u);
  const Prediction& p = found.plans.front().prediction;
  EXPECT_EQ(found.plans.front().way.spec.pipeline.residency, api::Residency::kSwap);
  // The forward is computed twice. Eight microbatches pass a segment together: the embedding,
  // four times three layers, the head. Weights come soon enough beside a layer, and gradients leave
  // there. Beside the embedding nothing is computed, and beside the head little: the first and the
  // last layer are waited for, and so is the embedding at the step's begin, and its gradients.
  // Seven of eight sums come back, and the step's comes and leaves; and an update, with weights and
  // moments there and back, once more what shares a piece of 4 MiB with another tensor, for its
  // digest (a layer has seven matrices), and the sum twice.
  api::Spec swapped = request.job.spec;
  swapped.pipeline.residency = api::Residency::kSwap;
  const double parameters = static_cast<double>(model.ParametersOf({0, 12}).all());
  const double seconds = ModelCosts(swapped).Flops({0, 12}) * 512 / 1e12;
  const double shared = 7 * double{4 << 20} / (4 * static_cast<double>(model.layer().all()));
  EXPECT_LT(shared, 1);
  EXPECT_NEAR(p.update_seconds, (24 + 12 * shared + 8) * parameters / 1e9, 1e-9);
  ASSERT_EQ(p.stages[0].swap->segments, 6u);
  const double layers = 3 * 4 * static_cast<double>(model.layer().all()) / 1e9;
  const double table = 4 * static_cast<double>(model.table().all()) / 1e9;
  const double head_back = 8 * 0.75 * ModelCosts(swapped).HeadFlops() * 512 / 1e12;
  const double pass = 8 * seconds + layers + (layers - head_back) + layers + table;
  EXPECT_NEAR(p.bound_seconds, 8 * pass + table + 7 * 12 * parameters / 1e9, 1e-9);
  EXPECT_NEAR(p.step_seconds, p.bound_seconds + p.update_seconds, 1e-9);
  EXPECT_EQ(p.limit, Limit::kDisk);
  EXPECT_LT(p.stages[0].memory_bytes, group.memory_bytes);
  // What comes and leaves while layers compute takes cores from them. In a pass the weights of
  // segments come nine times beside layers, as others' or as gradients, and the table three times.
  group.disk_seconds_per_byte = 1e-10;
  const Prediction slower = FindPlans(request).plans.front().prediction;
  EXPECT_NEAR(slower.bound_seconds - p.bound_seconds, 8 * (9 * layers + 3 * table) * 0.1, 1e-9);
  EXPECT_EQ(slower.update_seconds, p.update_seconds);
}

/// Job() in BF16 on one device that has room for neither Resident nor Offload, beside a host with
/// 64 GiB. Links carry 20e9 and 10e9 bytes a second, the host copies 8e9 and updates 2e9
/// parameters.
Request OnSmallDevice(double teraflops) {
  Request request = Fixed(Of(Job(), {Group("gpu", 1, teraflops)}), 1);
  request.open.microbatch = false;
  request.job.spec.training.precision = api::Precision::kBF16;
  Machines& group = request.fleet.groups[0];
  group.device_bytes = 2e9;
  group.memory_bytes = 64e9;
  group.to_device = 20e9;
  group.from_device = 10e9;
  group.memory_rate = 8e9;
  group.update_rate = 2e9;
  return request;
}

TEST(Planner, AModelThatNoDeviceHoldsIsSwappedBesideIt) {
  const Request request = OnSmallDevice(0.1);
  const Plans found = FindPlans(request);
  ASSERT_EQ(found.plans.size(), 1u) << "neither Resident nor Offload has room";
  const api::Spec& spec = found.plans[0].way.spec;
  EXPECT_EQ(spec.pipeline.residency, api::Residency::kSwap);
  // Half of the device has room for three segments of one layer; so with embedding and head there
  // are 14. The state is in the memory of the host, half of which is for it.
  const Prediction& p = found.plans[0].prediction;
  ASSERT_TRUE(p.stages[0].swap.has_value());
  EXPECT_EQ(p.stages[0].swap->segments, 14u);
  EXPECT_EQ(p.stages[0].swap->tasks, 8u);
  EXPECT_TRUE(p.stages[0].swap->in_memory);
  EXPECT_LT(p.stages[0].memory_bytes, 2e9);
  // The device is slow: all weights and gradients move while it computes, but for four. The
  // embedding computes nothing, while the first layer comes: out of the memory that has the state,
  // into operands, over the link. Backwards, the first layer's gradients leave beside it, and its
  // own are the last. The first pass finds nothing there. And the sums of seven passes are added to
  // that of the first.
  const ModelCosts model(spec);
  const auto parameters = static_cast<double>(model.ParametersOf({0, 12}).all());
  const auto layer = static_cast<double>(model.layer().all());
  const auto table = static_cast<double>(model.table().all());
  const double computes = 64 * model.Flops({0, 12}) * 512 / 1e11;
  const double comes = 4 / 8e9 + 4 / 8e9 + 2 / 20e9;  // of a weight
  const double of_pass = comes * layer + 4 * layer / 8e9 + table * (4 / 10e9 + 4 / 8e9);
  EXPECT_NEAR(p.stages[0].swap->compute_seconds, computes, 1e-9);
  EXPECT_NEAR(p.bound_seconds, computes + 8 * of_pass + comes * table + 7 * 12 * parameters / 8e9,
              1e-9);
  // The sum is read for its norm. Then weights, moments and sum come, and the first two leave, with
  // a second look at what shares a piece; the host computes beside that.
  const double shared = 7 * double{4 << 20} / (4 * layer);
  EXPECT_NEAR(p.update_seconds, (4 + 16 + 12 + 12 * shared) * parameters / 8e9, 1e-9);
  EXPECT_NEAR(p.step_seconds, p.bound_seconds + p.update_seconds, 1e-9);
  EXPECT_EQ(p.limit, Limit::kCompute);
}

TEST(Planner, ASwappedStepBesideADeviceIsBoundByWhatIsSlow) {
  const auto predict = [](const Request& request) {
    return FindPlans(request).plans.front().prediction;
  };
  Request request = OnSmallDevice(100);
  Machines& group = request.fleet.groups[0];
  EXPECT_EQ(predict(request).limit, Limit::kHostMemory)
      << "a layer comes in 18 ms, and is computed in 1";
  group.memory_rate = 1e13;
  const Prediction link = predict(request);
  EXPECT_EQ(link.limit, Limit::kDeviceLink);
  // Beside a layer's forward come what eight microbatches bring and the next one's operands. Beside
  // its backward leave eight input gradients and the gradients of the one before.
  const ModelCosts model(request.job.spec);
  const double boundaries = 8 * 512.0 * 1024 * 4, layer = static_cast<double>(model.layer().all());
  const double pass = 11 * (boundaries + 2 * layer) / 20e9 + 11 * (boundaries + 4 * layer) / 10e9;
  EXPECT_GT(link.bound_seconds, 8 * pass);
  EXPECT_LT(link.bound_seconds, 8 * pass * 13 / 11);
  group.update_rate = 1e8;
  const Prediction update = predict(request);
  EXPECT_EQ(update.limit, Limit::kUpdate);
  const auto parameters = static_cast<double>(model.ParametersOf({0, 12}).all());
  EXPECT_NEAR(update.update_seconds, parameters / 1e8, 0.01);
  EXPECT_EQ(LimitText(update), "the updates that the hosts of stage 0 compute");
}

TEST(Planner, ASwappedPlanHasTheBestSegmentsAndTheBestNumberThatPassTogether) {
  for (const double teraflops : {0.1, 5.0, 100.0}) {
    Request request = OnSmallDevice(teraflops);
    request.fleet.groups[0].device_bytes *= 3;  // room for segments of several layers
    request.job.spec.pipeline.residency = api::Residency::kSwap;
    const double taken = FindPlans(request).plans.front().prediction.tokens_per_second;
    request.open.segments = true;
    const Plan chosen = FindPlans(request).plans.front();
    const double best = chosen.prediction.tokens_per_second;
    EXPECT_GE(best, taken);
    // Nothing that a manifest could say is better.
    const ModelCosts model(chosen.way.spec);
    double most = 0;
    for (std::uint64_t mebibytes = 256; mebibytes < 8192; mebibytes += 32) {
      for (std::uint64_t together = 1; together <= 64; ++together) {
        Way way = chosen.way;
        way.spec.pipeline.memory.device = mebibytes << 20;
        way.spec.pipeline.inFlightMax = together;
        const Machines& group = request.fleet.groups[0];
        if (LeastMemory(way.spec, model, group, {0, 12}, true) > group.device_bytes) continue;
        most = std::max(most, Predict(way, model, request.fleet).tokens_per_second);
      }
    }
    EXPECT_GE(best, most * (1 - kPlanTie)) << teraflops;
    // The manifest has them.
    const api::PlanChoice choice = ChoiceOf(chosen, request.open);
    nlohmann::json manifest = nlohmann::json::object();
    FillIn(choice, &manifest);
    const auto& pipeline = manifest["spec"]["pipeline"];
    EXPECT_EQ(pipeline.value("inFlightMax", std::uint64_t{0}),
              chosen.prediction.in_flight_max.value_or(0));
    const auto memory = pipeline.value("memory", nlohmann::json::object());
    EXPECT_EQ(memory.value("device", std::uint64_t{0}), chosen.way.spec.pipeline.memory.device);
  }
}

TEST(Planner, ABoundThatIsWhatAWorkerTakesAnyhowChangesNoSwappedPlan) {
  Request request = OnSmallDevice(5);
  const Prediction taken = FindPlans(request).plans.front().prediction;
  ASSERT_EQ(taken.stages[0].swap->tasks, 8u);
  request.job.spec.pipeline.inFlightMax = 8;
  const Prediction said = FindPlans(request).plans.front().prediction;
  EXPECT_EQ(said.step_seconds, taken.step_seconds);
  EXPECT_EQ(said.limit, taken.limit);
  // Half as many come twice as often.
  request.job.spec.pipeline.inFlightMax = 4;
  EXPECT_GT(FindPlans(request).plans.front().prediction.step_seconds, taken.step_seconds);
}

TEST(Planner, WhatTheManifestSaysOfSegmentsStays) {
  Request request = OnSmallDevice(5);
  request.open.segments = true;
  request.job.spec.pipeline.memory.device = 700 << 20;
  request.job.spec.pipeline.inFlightMax = 3;
  const Plan plan = FindPlans(request).plans.front();
  EXPECT_EQ(plan.way.spec.pipeline.memory.device, 700u << 20);
  EXPECT_EQ(plan.prediction.stages[0].swap->tasks, 3u);
}

TEST(Planner, AHostWithoutRoomForTheStateSwapsToItsDisk) {
  Request request = OnSmallDevice(1);
  Machines& group = request.fleet.groups[0];
  group.memory_bytes = 8e9;  // of which the worker takes half: 20 bytes a parameter are more
  const Plans none = FindPlans(request);
  EXPECT_TRUE(none.plans.empty());
  EXPECT_THAT(none.changes,
              testing::Contains("a disk in machines gpu (diskMBps), for what is swapped"));
  EXPECT_THAT(none.changes, testing::Contains(HasSubstr("memory of ")));
  EXPECT_THAT(none.changes, testing::Contains(HasSubstr("devices with ")));
  group.disk = 1e9;
  const Prediction p = FindPlans(request).plans.front().prediction;
  EXPECT_FALSE(p.stages[0].swap->in_memory);
  EXPECT_EQ(p.limit, Limit::kDisk);
}

TEST(Planner, ALimitOfTheDeviceTierIsPlannedWith) {
  Request request = OnSmallDevice(100);
  const Prediction free = FindPlans(request).plans.front().prediction;
  request.job.spec.pipeline.residency = api::Residency::kSwap;
  request.open.residency = false;
  // Room for two layers of 14 bytes a parameter, and for no third one that leaves beside.
  request.job.spec.pipeline.memory.device = 700'000'000;
  const Prediction limited = FindPlans(request).plans.front().prediction;
  EXPECT_LT(limited.stages[0].memory_bytes, free.stages[0].memory_bytes);
  EXPECT_GT(limited.step_seconds, free.step_seconds);
  request.job.spec.pipeline.memory.device = 500'000'000;
  const Plans none = FindPlans(request);
  EXPECT_TRUE(none.plans.empty());
  // 4/3 of two layers: 626 MB.
  EXPECT_THAT(none.changes, testing::Contains("pipeline.memory.device: 0.583 GiB"));
}

TEST(Planner, BesideAPlanInDeviceMemoryStandsASwappedOneWithWhatWouldMakeItWin) {
  Request request = OnSmallDevice(100);
  request.fleet.groups[0].device_bytes = 80e9;
  const Plans found = FindPlans(request);
  ASSERT_EQ(found.plans.size(), 2u);
  EXPECT_EQ(found.plans[0].way.spec.pipeline.residency, std::nullopt);
  EXPECT_EQ(found.plans[1].way.spec.pipeline.residency, api::Residency::kSwap);
  EXPECT_LT(found.plans[1].prediction.tokens_per_second,
            found.plans[0].prediction.tokens_per_second);
  const std::optional<double> smaller = found.turns[0].smaller_devices;
  ASSERT_TRUE(smaller.has_value());
  request.fleet.groups[0].device_bytes = 0.99 * *smaller;
  EXPECT_EQ(FindPlans(request).plans.front().way.spec.pipeline.residency, api::Residency::kSwap);
  request.fleet.groups[0].device_bytes = 1.01 * *smaller;
  EXPECT_EQ(FindPlans(request).plans.front().way.spec.pipeline.residency, std::nullopt);
}

TEST(Planner, ASwappedStageThatRecomputesLayersComputesAForwardMore) {
  api::Spec spec = Job().spec;
  spec.pipeline.residency = api::Residency::kSwap;
  const ModelCosts swapped(spec);
  spec.pipeline.recompute = api::Recompute::kFull;  // a segment's forward is computed again anyhow
  EXPECT_EQ(ModelCosts(spec).Flops({0, 11}), swapped.Flops({0, 11}));
  spec.pipeline.recompute = api::Recompute::kLayers;
  const ModelCosts again(spec);
  EXPECT_NEAR(again.Flops({0, 11}) / swapped.Flops({0, 11}), 5.0 / 4, 1e-9);
  EXPECT_NEAR(again.ForwardShare(), 1.0 / 5, 1e-9);
}

TEST(Planner, WhereTheModelFitsItStaysInMemory) {
  Request request = Fixed(Of(Job(), {Group("large", 1, 1)}), 1);
  request.fleet.groups[0].memory_bytes = 1e12;
  request.fleet.groups[0].disk = 1e12;  // as fast as memory
  EXPECT_EQ(FindPlans(request).plans.front().way.spec.pipeline.residency, std::nullopt);
}

TEST(Planner, AJobThatIsSwappedIsPlannedAsThat) {
  Request request = Fixed(Of(Job(), {Group("t", 2, 1)}), 2);
  request.open.residency = false;
  request.job.spec.pipeline.residency = api::Residency::kSwap;
  request.job.spec.pipeline.memory.host = std::uint64_t{1} << 30;
  EXPECT_TRUE(FindPlans(request).plans.empty()) << "without a disk";
  request.fleet.groups[0].disk = 1e8;
  const Plans found = FindPlans(request);
  ASSERT_EQ(found.plans.size(), 1u);
  EXPECT_EQ(found.plans.front().prediction.limit, Limit::kDisk);
  request.open.step_mode = true;
  EXPECT_EQ(FindPlans(request).plans.size(), 2u) << "Sync and Delayed";
  // Devices with a memory of their own are for it, too; a host with room for the state has no disk.
  request.fleet.groups[0].device_bytes = 1e12;
  EXPECT_EQ(FindPlans(request).plans.size(), 2u);
  request.fleet.groups[0].disk = 0;
  EXPECT_TRUE(FindPlans(request).plans.empty()) << "1 GiB of the host has no room for it";
  request.job.spec.pipeline.memory.host = std::uint64_t{16} << 30;
  EXPECT_EQ(FindPlans(request).plans.size(), 2u);
}

TEST(Planner, ASwappedStepThatOverlapsTheNextHidesItsSumAndWithExactSumsNotItsUpdate) {
  // As in DelayedHidesALongReduce: a sum takes 2 s, and so does the work, but for the disk.
  Request request = Fixed(Of(Job(), {Group("t", 2, 10)}), 1);
  request.job.spec.training.accumulation = api::Accumulation::kExact;
  Machines& group = request.fleet.groups[0];
  group.upload = group.download = 4e8;
  group.disk = 2e9;
  request.open.residency = request.open.replicas = false;
  request.job.spec.workers.replicas = 2;
  request.job.spec.pipeline.residency = api::Residency::kSwap;
  const auto predict = [&](api::StepMode mode) {
    request.job.spec.training.stepMode = mode;
    return FindPlans(request).plans.front().prediction;
  };
  const Prediction sync = predict(api::StepMode::kSync);
  const Prediction delayed = predict(api::StepMode::kDelayed);
  // The digest of a state with the weights of two versions reads 4 bytes more of what shares a
  // piece of 4 MiB with another tensor.
  const ModelCosts model(request.job.spec);
  const double parameters = static_cast<double>(model.ParametersOf({0, 12}).all());
  const double shared = 7 * double{4 << 20} / (4 * static_cast<double>(model.layer().all()));
  EXPECT_NEAR(delayed.update_seconds - sync.update_seconds, 4 * shared * parameters / 2e9, 1e-9);
  EXPECT_GT(sync.reduce_seconds, 1);
  EXPECT_NEAR(sync.step_seconds, sync.bound_seconds + sync.reduce_seconds + sync.update_seconds,
              1e-9);
  EXPECT_NEAR(delayed.step_seconds, sync.bound_seconds + delayed.update_seconds, 1e-9);
  EXPECT_EQ(delayed.limit, Limit::kDisk);
  EXPECT_EQ(delayed.stages[0].memory_bytes, sync.stages[0].memory_bytes);
}

TEST(Planner, AnUpdateBesideTheNextStepsTasksTakesWhatTheDiskOrTheHostTakesLonger) {
  Request request = Fixed(Of(Job(), {Group("t", 1, 10)}), 1);
  request.open.residency = request.open.replicas = false;
  request.job.spec.workers.replicas = 1;
  request.job.spec.pipeline.residency = api::Residency::kSwap;
  const auto predict = [&](api::StepMode mode, double disk, double updates) {
    request.fleet.groups[0].disk = disk;
    request.fleet.groups[0].update_rate = updates;
    request.job.spec.training.stepMode = mode;
    return FindPlans(request).plans.front().prediction;
  };
  constexpr api::StepMode kSync = api::StepMode::kSync, kDelayed = api::StepMode::kDelayed;
  const auto passes = [](const Prediction& p) { return p.stages[0].swap->pass_seconds; };
  // The disk is fast enough for both.
  const Prediction fast = predict(kDelayed, 1e11, 0);
  EXPECT_NEAR(fast.step_seconds, passes(fast), 1e-3 * fast.step_seconds);
  // It is busy all the time, and nothing else costs anything.
  const Prediction slow = predict(kDelayed, 1e8, 0), in_turn = predict(kSync, 1e8, 0);
  EXPECT_GT(slow.step_seconds, 1.15 * passes(slow));
  EXPECT_LT(slow.step_seconds, in_turn.step_seconds);
  const Prediction slower = predict(kDelayed, 5e7, 0);
  EXPECT_NEAR(slower.step_seconds, 2 * slow.step_seconds, 1e-6 * slower.step_seconds);
  // The cores that compute passes compute updates, too.
  const ModelCosts model(request.job.spec);
  const double parameters = static_cast<double>(model.ParametersOf({0, 12}).all());
  const Prediction computed = predict(kDelayed, 1e11, parameters);  // a second of updates
  EXPECT_NEAR(computed.step_seconds - fast.step_seconds, 1, 1e-3);
}

TEST(Planner, RoundsOfLocalStepsArePlannedAsStepsThatMayOverlap) {
  // As in DelayedHidesALongReduce: a sum takes 2 s, and so does the work.
  Request request = Fixed(Of(Job(), {Group("t", 2, 10)}), 1);
  request.fleet.groups[0].upload = request.fleet.groups[0].download = 4e8;
  request.open.step_mode = true;
  request.job.spec.training.stepMode = api::StepMode::kLocal;
  request.job.spec.training.local.innerSteps = 32;
  const Plans found = FindPlans(request);
  ASSERT_EQ(found.plans.size(), 2u);
  const Plan &best = found.plans[0], &other = found.plans[1];
  EXPECT_EQ(best.way.spec.training.stepMode, api::StepMode::kLocal) << "the user chose it";
  EXPECT_TRUE(best.way.spec.training.local.overlap);
  EXPECT_FALSE(other.way.spec.training.local.overlap);
  EXPECT_GT(best.prediction.tokens_per_second, 1.9 * other.prediction.tokens_per_second);
  // A round of twice the microbatches has half as many sums.
  request.open.overlap = request.open.replicas = false;
  request.job.spec.workers.replicas = 2;
  const Prediction one = FindPlans(request).plans.front().prediction;
  request.job.spec.training.globalBatchSize *= 2;
  const Prediction two = FindPlans(request).plans.front().prediction;
  EXPECT_NEAR(two.bound_seconds, 2 * one.bound_seconds, 1e-9);
  EXPECT_NEAR(two.reduce_seconds, one.reduce_seconds, 1e-9);
  request.job.spec.training.local.fragments = 4;
  const Prediction quarter = FindPlans(request).plans.front().prediction;
  EXPECT_NEAR(quarter.reduce_seconds, two.reduce_seconds / 4, 1e-3);
}

TEST(Planner, StagesOfLocalDoNotShareAnEmbedding) {
  Request request = Of(Job(), {Group("t", 4, 10)});
  request.job.spec.model.config.tie_word_embeddings = true;
  request.job.spec.training.stepMode = api::StepMode::kLocal;
  request.job.spec.training.local.innerSteps = 16;
  request.fleet.groups[0].upload = request.fleet.groups[0].download = 1e10;
  const Plans found = FindPlans(request);
  ASSERT_FALSE(found.plans.empty());
  for (const Plan& plan : found.plans) EXPECT_EQ(plan.way.runs.size(), 1u);
}

TEST(Planner, StepsOfASwappedReplicaAreFewerForItsDisk) {
  Request request = Fixed(Of(Job(), {Group("t", 2, 1)}), 1);
  request.open.residency = request.open.replicas = false;
  request.job.spec.workers.replicas = 2;
  request.job.spec.training.stepMode = api::StepMode::kLocal;
  request.job.spec.training.local = {.innerSteps = 8, .microbatches = 1};
  request.job.spec.pipeline.residency = api::Residency::kSwap;
  request.fleet.groups[0].disk = 1e9;
  const auto seconds = [&] { return FindPlans(request).plans.front().prediction.step_seconds; };
  const double one = seconds();
  request.job.spec.training.local = {.innerSteps = 2, .microbatches = 4};
  EXPECT_LT(seconds(), 0.7 * one) << "a quarter of the steps, and weights come for four at once";
}

TEST(Planner, LossesCostWhatIsComputedAgainAndWhoIsAway) {
  Request request = Fixed(Of(Job(), {Group("spot", 4, 1)}), 1);
  const double calm = FindPlans(request).plans.front().prediction.tokens_per_second;
  Machines& group = request.fleet.groups[0];
  group.losses_per_hour = 6;
  group.return_seconds = 120;
  const Prediction p = FindPlans(request).plans.front().prediction;
  // Away 120 s in each 720 s.
  EXPECT_GT(p.lost_share, 120.0 / 720);
  EXPECT_NEAR(p.tokens_per_second, calm * (1 - p.lost_share), calm * 1e-9);
}

TEST(Planner, CostIsMachinesAndTraffic) {
  Request request = Fixed(Of(Job(), {Group("t", 2, 1)}, {{"*", "*", 0, 0, 1e-9}}), 2);
  request.fleet.groups[0].dollars_per_hour = 0.5;
  const Prediction p = FindPlans(request).plans.front().prediction;
  const double bytes = 2 * 64 * 512.0 * 1024 * 4;  // of a step, both ways
  EXPECT_NEAR(p.dollars_per_hour, 1 + bytes / p.step_seconds * 3600 * 1e-9, 1e-9);
  EXPECT_NEAR(p.tokens_per_dollar, p.tokens_per_second * 3600 / p.dollars_per_hour, 1e-3);
}

// ---- what must hold of any plan ----

/// All cuts, one after the other.
double BestByTrying(const ModelCosts& model, const std::vector<double>& speeds, std::size_t stage,
                    std::uint64_t first) {
  const std::uint64_t left = model.layers() - first;
  if (stage + 1 == speeds.size()) {
    return left == 0 ? 1e300 : model.Flops({first, left}) / speeds[stage];
  }
  double best = 1e300;
  for (std::uint64_t count = 1; count < left; ++count) {
    best = std::min(best, std::max(model.Flops({first, count}) / speeds[stage],
                                   BestByTrying(model, speeds, stage + 1, first + count)));
  }
  return best;
}

RC_GTEST_PROP(PlannerProperties, CutsAreTheBestThereAre, ()) {
  api::SwarmJob job = Job(*rc::gen::inRange(4, 9));
  job.spec.model.config.vocab_size = *rc::gen::inRange(256, 60000);
  for (std::int64_t layer = 0; layer < job.spec.model.config.num_hidden_layers; ++layer) {
    job.spec.model.config.layers.push_back({.window = *rc::gen::element(0, 16)});
  }
  const ModelCosts model(job.spec);
  const auto speeds = *rc::gen::container<std::vector<double>>(
      *rc::gen::inRange<std::size_t>(1, 5), rc::gen::element(1.0, 2.0, 3.5, 10.0));
  const auto runs = CutModel(model, speeds, {}, [](auto, auto) { return true; });
  RC_ASSERT(runs.has_value());
  double longest = 0;
  for (std::size_t s = 0; s < speeds.size(); ++s) {
    longest = std::max(longest, model.Flops((*runs)[s]) / speeds[s]);
  }
  RC_ASSERT(longest == BestByTrying(model, speeds, 0, 0));
}

Request AnyRequest() {
  std::vector<Machines> groups;
  const int kinds = *rc::gen::inRange(1, 3);
  for (int g = 0; g < kinds; ++g) {
    Machines group = Group("g" + std::to_string(g), *rc::gen::inRange<std::uint64_t>(1, 4),
                           *rc::gen::element(0.5, 2.0, 20.0));
    group.upload = group.download = *rc::gen::element(1e6, 1e7, 1e9);
    group.region = "r" + std::to_string(*rc::gen::inRange(0, 2));
    groups.push_back(group);
  }
  return Of(Job(*rc::gen::inRange(2, 6)), groups,
            {{"*", "*", *rc::gen::element(0.001, 0.1), *rc::gen::element(1e6, 1e8)}});
}

RC_GTEST_PROP(PlannerProperties, RoomForMoreMicrobatchesMakesNoPlanWorse, ()) {
  Request request = AnyRequest();
  const ModelCosts model(request.job.spec);
  for (Machines& group : request.fleet.groups) {
    group.dollars_per_hour = *rc::gen::element(0.0, 1.0);
    group.memory_bytes = *rc::gen::element(1.01, 2.0, 5.0) *
                         LeastMemory(request.job.spec, model, group, {0, model.layers()}, true);
  }
  request.fleet.links[0].dollars_per_byte = *rc::gen::element(0.0, 1e-9);
  for (const Plan& plan : FindPlans(request).plans) {
    const Prediction roomy = PredictRoomy(plan.way, model, request.fleet);
    RC_ASSERT(roomy.tokens_per_second >= plan.prediction.tokens_per_second);
    RC_ASSERT(roomy.tokens_per_dollar >= plan.prediction.tokens_per_dollar * (1 - 1e-12));
    RC_ASSERT(roomy.in_flight_max == plan.prediction.in_flight_max);
  }
}

double Best(const Request& request) {
  return FindPlans(request, 1).plans.front().prediction.tokens_per_second;
}

/// The plainest of those within 1 % of the best is taken.
constexpr double kTie = 0.99;

RC_GTEST_PROP(PlannerProperties, FasterLinksMakeNoPlanSlower, ()) {
  Request request = AnyRequest();
  const double before = Best(request);
  const double factor = *rc::gen::element(1.1, 2.0, 30.0);
  for (Link& link : request.fleet.links) link.rate *= factor;
  for (Machines& group : request.fleet.groups) {
    group.upload *= factor;
    group.download *= factor;
  }
  RC_ASSERT(Best(request) >= kTie * before);
}

RC_GTEST_PROP(PlannerProperties, OneMachineMoreMakesNoPlanSlower, ()) {
  Request request = AnyRequest();
  const double before = Best(request);
  ++request.fleet.groups[*rc::gen::inRange<std::size_t>(0, request.fleet.groups.size())].count;
  RC_ASSERT(Best(request) >= kTie * before);
}

RC_GTEST_PROP(PlannerProperties, WhatIsFreeIsNotWorseThanWhatIsFixed, ()) {
  Request request = AnyRequest();
  const double free = Best(request);
  request.open.codec = request.open.step_mode = request.open.microbatch = false;
  RC_ASSERT(free >= kTie * Best(request));
}

}  // namespace
}  // namespace swarm::planner
