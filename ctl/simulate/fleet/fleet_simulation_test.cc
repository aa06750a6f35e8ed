#include "ctl/simulate/fleet/fleet_simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::ctl {
namespace {

/// Eight machines that serve four stages, two each, on a network without limits. A microbatch takes
/// a second at stage 2 and half a second at the others.
Fleet EightMachines() {
  Fleet fleet;
  fleet.job.stages = 4;
  fleet.job.microbatches = 64;
  fleet.job.sequence_length = 1000;
  fleet.job.parameters = {1e6};
  fleet.job.state_bytes = 12;
  fleet.job.gradient_bytes = 4;
  fleet.job.boundary_bytes = 1e6;
  fleet.groups = {
      {.machines = {.name = "m", .count = 8}, .microbatch_seconds = {0.5, 0.5, 1, 0.5}}};
  fleet.seconds = 600;
  fleet.warm_up_seconds = 120;
  return fleet;
}

FleetResult Simulate(const Fleet& fleet, std::uint64_t seed = 1) {
  EXPECT_THAT(Check(fleet), testing::IsEmpty());
  const FleetResult result = SimulateFleet(fleet, seed, {});
  EXPECT_EQ(result.failure, "");
  return result;
}

TEST(FleetSimulation, TheSlowestStageSetsTheRate) {
  // Three of the eight serve the slow stage, one serves the last, at two microbatches a second.
  Fleet fleet = EightMachines();
  fleet.job.balance = protocol::BalancePolicy::kNone;
  EXPECT_THAT(ReplicasAtStart(fleet), testing::ElementsAre(2, 2, 3, 1));
  const FleetResult result = Simulate(fleet);
  EXPECT_NEAR(result.tokens_per_second, 2 * 1000, 0.01 * 2000);
  EXPECT_NEAR(result.ideal_tokens_per_second, 8 * 1000 / 2.5, 1e-6);
  EXPECT_NEAR(result.assigned_tokens_per_second, 2 * 1000, 1e-6);
  EXPECT_NEAR(result.busy_share, result.Goodput(), 0.01);
  EXPECT_EQ(result.lost, 0u);
  EXPECT_EQ(result.counts.evictions, 0u);
}

TEST(FleetSimulation, AStepInSyncIsComputeThenSumThenCommit) {
  Fleet fleet = EightMachines();
  fleet.job.stages = 1;
  fleet.job.delayed = false;
  fleet.job.parameters = {1e8};
  fleet.job.optimizer_seconds = 0.5;
  fleet.groups = {{.machines = {.name = "m", .count = 4, .upload = 1e8, .download = 5e7},
                   .microbatch_seconds = {0.5}}};
  fleet.links = {{"*", "*", 0.1}};
  const FleetResult result = Simulate(fleet);
  const double compute = 64.0 / 4 * 0.5;
  const double sum = 2 * 3 / 4.0 * 4e8 / 5e7 + 2 * 0.05;
  // Tokens go out, reports come back, Reduce, Reduced, Commit: each takes half a round trip.
  const double ways = 5 * 0.05;
  const double step = compute + sum + 0.5 + ways;
  EXPECT_NEAR(result.tokens_per_second, 64 * 1000 / step, 0.01 * 64 * 1000 / step);
}

TEST(FleetSimulation, ASumOfManyTakesTheSameBytesAndTwoMoreWays) {
  Fleet fleet = EightMachines();
  fleet.job.stages = 1;
  fleet.job.microbatches = 20;
  fleet.job.delayed = false;
  fleet.job.parameters = {1e8};
  fleet.groups = {{// four rows of five
                   .machines = {.name = "m", .count = 20, .upload = 1e8, .download = 5e7},
                   .microbatch_seconds = {0.5}}};
  fleet.links = {{"*", "*", 1.0}};
  const FleetResult result = Simulate(fleet);
  const double compute = 0.5;
  const double sum = 2 * 19 / 20.0 * 4e8 / 5e7 + 4 * 0.5;
  // The tokens go out with the Commit before them, reports come back, Reduce, Reduced.
  const double step = compute + sum + 4 * 0.5;
  EXPECT_NEAR(result.tokens_per_second, 20 * 1000 / step, 0.01 * 20 * 1000 / step);
}

TEST(FleetSimulation, OneSeedGivesOneHistory) {
  Fleet fleet = EightMachines();
  fleet.groups[0].jitter = 0.2;
  fleet.groups[0].machines.losses_per_hour = 20;
  fleet.groups[0].machines.return_seconds = 20;
  const FleetResult one = Simulate(fleet, 7), again = Simulate(fleet, 7),
                    other = Simulate(fleet, 8);
  EXPECT_EQ(one.tokens_per_second, again.tokens_per_second);
  EXPECT_EQ(one.events, again.events);
  EXPECT_EQ(one.trainer.received, again.trainer.received);
  EXPECT_EQ(one.recoveries.seconds, again.recoveries.seconds);
  EXPECT_NE(one.events, other.events);
}

TEST(FleetSimulation, OtherWorkersDoWhatALostOneHeldAndANewOneJoins) {
  Fleet fleet = EightMachines();
  fleet.groups[0].machines.losses_per_hour = 6;
  fleet.groups[0].machines.return_seconds = 30;
  fleet.groups[0].machines.upload = fleet.groups[0].machines.download = 1e8;
  fleet.seconds = 1800;
  const FleetResult result = Simulate(fleet);
  EXPECT_GT(result.lost, 10u);
  EXPECT_GT(result.arrived, 10u);
  EXPECT_GE(result.counts.evictions + result.counts.leaves, result.lost - 1);
  // A recovery takes the detection, and at least one piece of work.
  EXPECT_GT(result.recoveries.seconds.size(), 5u);
  EXPECT_GT(result.recoveries.seconds.front(), fleet.detect_seconds);
  EXPECT_GT(result.Goodput(), 0.5);
  EXPECT_LT(result.Goodput(), 1);
  const double state = fleet.job.StateBytes(0);
  EXPECT_GE(result.traffic.Of(Traffic::kState), state * static_cast<double>(result.counts.joins));
}

TEST(FleetSimulation, ACopyMayTakeLongAsLongAsBytesCome) {
  Fleet fleet = EightMachines();
  fleet.job.parameters = {1e8};
  fleet.job.gradient_bytes = 0.01;
  // Four minutes for a state on such a line, of which nothing may be lost.
  fleet.groups[0].machines.upload = fleet.groups[0].machines.download = 5e6;
  fleet.groups[0].trace.events = {
      {0, {}, {"a", "b", "c", "d", "e", "f", "g", "h"}}, {200, {"a"}, {}}, {230, {}, {"i"}}};
  fleet.seconds = 900;
  const FleetResult result = Simulate(fleet);
  EXPECT_EQ(result.counts.evictions, 1u);
  EXPECT_EQ(result.counts.joins, 1u);
}

/// Each region is faster at the stage at which the other one is slower: lanes, which lead from fast
/// workers to fast ones, change regions unless the link counts.
std::vector<FleetGroup> RegionsThatAreFastAtOtherStages(std::uint64_t stages) {
  std::vector<FleetGroup> groups{{.machines = {.name = "near", .count = 4, .region = "a"}},
                                 {.machines = {.name = "far", .count = 4, .region = "b"}}};
  for (std::uint64_t s = 0; s < stages; ++s) {
    groups[s % 2].microbatch_seconds.push_back(0.4);
    groups[1 - s % 2].microbatch_seconds.push_back(0.6);
  }
  return groups;
}

TEST(FleetSimulation, RoutesStayWithinRegionsThatASlowLinkConnects) {
  const auto rate = [](bool reports_links) {
    Fleet fleet = EightMachines();
    fleet.job.stages = 2;
    fleet.job.microbatches = 256;
    fleet.job.reports_links = reports_links;
    fleet.groups = RegionsThatAreFastAtOtherStages(fleet.job.stages);
    fleet.links = {{"a", "b", 0.1, 3e5}};
    return Simulate(fleet).Goodput();
  };
  EXPECT_GT(rate(true), 1.1 * rate(false));
}

TEST(FleetSimulation, AMachineThatHearsOfItsEndHandsOver) {
  Fleet fleet = EightMachines();
  fleet.groups[0].machines.losses_per_hour = 6;
  fleet.groups[0].machines.return_seconds = 30;
  fleet.groups[0].notice_seconds = 60;
  fleet.seconds = 1800;
  const FleetResult result = Simulate(fleet);
  EXPECT_GT(result.counts.leaves, 10u);
  EXPECT_LE(result.counts.evictions, result.lost / 4);
  EXPECT_GT(result.traffic.Of(Traffic::kParcels), 0);
}

TEST(FleetSimulation, AJobThatLosesAStageGoesBackToItsCheckpoint) {
  Fleet fleet = EightMachines();
  fleet.job.stages = 2;
  fleet.job.microbatches = 8;
  fleet.job.checkpoint_steps = 5;
  fleet.groups[0].microbatch_seconds = {0.5};
  fleet.groups[0].trace.events = {{0, {}, {"a", "b"}}, {200, {"b"}, {}}, {230, {}, {"c"}}};
  const FleetResult result = Simulate(fleet);
  EXPECT_EQ(result.counts.rollbacks, 1u);
  EXPECT_EQ(result.lost, 1u);
  EXPECT_EQ(result.arrived, 1u);
  EXPECT_GT(result.traffic.Of(Traffic::kCheckpoints), 0);
  EXPECT_GT(result.steps, 80u);  // of 120 without the loss
}

TEST(FleetSimulation, ADistantRegionCostsAStepInSyncAndNotInDelayed) {
  const auto rate = [](bool delayed, double round_trip) {
    Fleet fleet = EightMachines();
    fleet.job.delayed = delayed;
    fleet.job.reports_links = false;  // else routes would avoid the way
    fleet.groups = RegionsThatAreFastAtOtherStages(fleet.job.stages);
    fleet.links = {{"a", "b", round_trip}};
    return Simulate(fleet).tokens_per_second;
  };
  EXPECT_GT(rate(true, 0.4), 0.98 * rate(true, 0));
  EXPECT_LT(rate(false, 0.4), 0.96 * rate(false, 0));
}

TEST(FleetSimulation, ASlowLineIsTheLimitOfItsStage) {
  Fleet fleet = EightMachines();
  fleet.groups[0].microbatch_seconds = {0.1};
  fleet.groups[0].machines.upload = fleet.groups[0].machines.download = 2e6;
  // The inner stages send a megabyte forward and one back for each microbatch.
  const FleetResult result = Simulate(fleet);
  EXPECT_LE(result.tokens_per_second, 1.01 * 2 * 1000);
  EXPECT_GE(result.tokens_per_second, 0.84 * 2 * 1000) << "lines are idle at the end of a step";
  EXPECT_NEAR(result.traffic.Of(Traffic::kActivations), result.traffic.Of(Traffic::kGradients),
              0.05 * result.traffic.Of(Traffic::kGradients));
}

}  // namespace
}  // namespace swarm::ctl
