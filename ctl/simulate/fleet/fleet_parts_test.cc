// The small parts of a fleet's simulation: device, presence, progress, recoveries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ctl/simulate/fleet/device.h"
#include "ctl/simulate/fleet/link_meters.h"
#include "ctl/simulate/fleet/links.h"
#include "ctl/simulate/fleet/presence.h"
#include "ctl/simulate/fleet/progress.h"
#include "ctl/simulate/fleet/recoveries.h"

namespace swarm::ctl {
namespace {

using protocol::Step;
using testing::ElementsAre;

constexpr double kNever = std::numeric_limits<double>::infinity();

Fleet OneGroup(FleetGroup group) {
  Fleet fleet;
  group.machines.name = "m";
  fleet.groups = {std::move(group)};
  return fleet;
}

TEST(Device, WorkOnTheStateComesFirstThenOldStepsThenBackwards) {
  EventQueue queue;
  Device device(&queue);
  std::string order;
  const auto note = [&](char what) { return [&order, what] { order += what; }; };
  device.PostTask(Step(5), WorkKind::kForward, 1, note('a'));  // runs at once
  device.PostTask(Step(5), WorkKind::kForward, 1, note('e'));
  device.PostTask(Step(5), WorkKind::kBackward, 1, note('d'));
  device.PostTask(Step(4), WorkKind::kForward, 1, note('c'));
  device.PostState(1, note('b'));
  EXPECT_EQ(device.queued(), 5u);
  queue.RunUntil(queue.now() + std::chrono::seconds(10));
  EXPECT_EQ(order, "abcde");
  EXPECT_EQ(device.busy_seconds(), 5);
  EXPECT_EQ(device.finished(), 5u);
}

TEST(Device, WhatIsClearedIsNeverDone) {
  EventQueue queue;
  Device device(&queue);
  std::string order;
  device.PostState(1, [&] { order += 'a'; });
  device.PostState(1, [&] { order += 'b'; });
  device.Clear();
  device.PostState(2, [&] { order += 'c'; });
  queue.RunUntil(queue.now() + std::chrono::seconds(10));
  EXPECT_EQ(order, "c");
  EXPECT_EQ(device.busy_seconds(), 2);
}

TEST(LinkMeters, ARateCountsIfItFilledTheConnectionAndUntilItIsOld) {
  const protocol::WorkerId a("a"), b("b");
  LinkMeters meters;
  const Duration round_trip = std::chrono::milliseconds(100);
  Timepoint now(std::chrono::hours(1));
  meters.OnSent(a, b, round_trip, 1000, 0.05, now);
  EXPECT_EQ(meters.Links(a, now), (std::map<protocol::WorkerId, protocol::Link>{{b, {0.1, 0}}}));
  EXPECT_TRUE(meters.Links(b, now).empty());
  meters.OnSent(a, b, round_trip, 1000, 0.5, now);
  EXPECT_EQ(meters.Links(a, now).at(b).bytes_per_second, 2000);
  // Slower ones replace it once it is old; without any it stays.
  now += std::chrono::seconds(60);
  EXPECT_EQ(meters.Links(a, now).at(b).bytes_per_second, 2000);
  now += std::chrono::seconds(11);
  meters.OnSent(a, b, round_trip, 1000, 1, now);
  now += std::chrono::seconds(11);
  EXPECT_EQ(meters.Links(a, now).at(b).bytes_per_second, 1000);
  meters.Forget(b);
  EXPECT_TRUE(meters.Links(a, now).empty());
}

TEST(Links, TheLastThatFitsCountsInBothDirections) {
  Fleet fleet;
  fleet.trainer_region = "eu";
  fleet.groups = {{.machines = {.name = "a", .region = "eu"}},
                  {.machines = {.name = "b", .region = "us"}}};
  fleet.links = {{"*", "*", 0.002, 5e6}, {"us", "eu", 0.1}};
  const Links links(fleet);
  const Region eu = links.RegionOf("eu"), us = links.RegionOf("us");
  EXPECT_EQ(links.OneWay(eu, eu), std::chrono::milliseconds(1));
  EXPECT_EQ(links.OneWay(eu, us), std::chrono::milliseconds(50));
  EXPECT_EQ(links.OneWay(us, eu), std::chrono::milliseconds(50));
  EXPECT_EQ(links.RateMax(us, us), 5e6);
  EXPECT_EQ(links.RateMax(us, eu), kUnlimited);
}

TEST(Presence, MachinesAreLostAtTheirRateAndComeBackAfterTheirDelay) {
  Fleet fleet =
      OneGroup({.machines = {.count = 1000, .losses_per_hour = 0.5, .return_seconds = 60}});
  fleet.seconds = 3600;
  const auto stays = DrawStays(fleet, 1);
  // 500 losses are expected, with a standard deviation of about 22; a stay ends with each.
  EXPECT_NEAR(static_cast<double>(stays.size()), 1500, 90);
  EXPECT_EQ(stays, DrawStays(fleet, 1));
  EXPECT_NE(stays, DrawStays(fleet, 2));
  for (const Stay& stay : stays) {
    if (stay.begin == 0) continue;
    const auto ended_before = [&](const Stay& other) { return other.end + 60 == stay.begin; };
    ASSERT_TRUE(std::ranges::any_of(stays, ended_before)) << stay.name;
  }
}

TEST(Presence, ATraceSaysWhoIsThere) {
  Fleet fleet = OneGroup({});
  fleet.seconds = 100;
  fleet.groups[0].trace.events = {
      {0, {}, {"x", "y"}}, {30, {"x"}, {}}, {50, {}, {"x"}}, {200, {"y"}, {}}};
  EXPECT_THAT(DrawStays(fleet, 1),
              ElementsAre(Stay{"m-00000", 0, 0, 30}, Stay{"m-00001", 0, 0, kNever},
                          Stay{"m-00002", 0, 50, kNever}));
}

class ProgressTest : public testing::Test {
 protected:
  ProgressTest() {
    fleet_.job = {.microbatches = 10, .sequence_length = 100};
    fleet_.groups[0].microbatch_seconds = {0.5};
  }
  FleetResult Summarize(double warm_up, double end) const {
    return progress_.Summarize(fleet_, {{"m-00000", 0, 0, 30}, {"m-00001", 0, 10, kNever}}, warm_up,
                               end);
  }

  Fleet fleet_ = OneGroup({.machines = {.count = 1}});
  Progress progress_;
};

TEST_F(ProgressTest, RatesAreFromCommitToCommitAfterTheWarmUp) {
  for (std::uint64_t step = 0; step < 8; ++step) progress_.OnStep(Step(step), 5.0 * step);
  const FleetResult result = Summarize(12, 38);
  EXPECT_EQ(result.steps, 5u);
  EXPECT_EQ(result.tokens_per_second, 1000 / 5);
  // The one machine is there for 18 of the 26 seconds, the other for all.
  EXPECT_NEAR(result.workers, 1 + 18.0 / 26, 1e-9);
  EXPECT_NEAR(result.ideal_tokens_per_second, 200 * result.workers, 1e-9);
  EXPECT_NEAR(result.assigned_tokens_per_second, 200 * result.workers, 1e-9);
}

TEST_F(ProgressTest, AStepThatDoesNotComeCosts) {
  for (std::uint64_t step = 0; step < 4; ++step) progress_.OnStep(Step(step), 5.0 * step);
  EXPECT_EQ(Summarize(0, 30).tokens_per_second, 3 * 1000 / 30.0);
}

TEST_F(ProgressTest, StepsThatAreRolledBackDoNotCount) {
  for (std::uint64_t step = 0; step < 4; ++step) progress_.OnStep(Step(step), 5.0 * step);
  progress_.OnRolledBack(protocol::Version(2));
  progress_.OnStep(Step(2), 25);
  EXPECT_EQ(Summarize(0, 30).steps, 3u);
  double tokens = 0;
  for (const auto& point : Summarize(0, 30).timeline) tokens += point.tokens_per_second * 30 / 240;
  EXPECT_NEAR(tokens, 2000, 1e-6);  // the first step took no time
}

TEST(Recoveries, OneIsOverWhenOthersHaveDoneAgainAllThatTheMachineHeld) {
  const Timepoint now = EventQueue().now();
  const auto cell = [](std::uint64_t step, std::uint64_t microbatch) {
    return Cell{{}, Step(step), protocol::Microbatch(microbatch), {}};
  };
  Recoveries recoveries;
  recoveries.OnLost({}, now);  // it held nothing
  recoveries.OnLost({cell(1, 0), cell(1, 1)}, now);
  recoveries.OnLost({cell(1, 1), cell(2, 0)}, now);
  recoveries.OnLost({cell(2, 7)}, now);
  recoveries.OnFolded(cell(1, 0), now + std::chrono::seconds(1));
  recoveries.OnFolded(cell(1, 1), now + std::chrono::seconds(2));
  recoveries.OnCommitted({}, Step(1), now + std::chrono::seconds(3));
  recoveries.OnFolded(cell(2, 0), now + std::chrono::seconds(4));
  EXPECT_EQ(recoveries.Times().losses, 3u);
  EXPECT_THAT(recoveries.Times().seconds, ElementsAre(2, 4));
  EXPECT_EQ(recoveries.Times().open, 1u);
  EXPECT_EQ(recoveries.Times().Mean(), 3);
  EXPECT_EQ(recoveries.Times().Quantile(0.5), 2);
  recoveries.OnRolledBack();
  EXPECT_EQ(recoveries.Times().rolled_back, 1u);
  EXPECT_EQ(recoveries.Times().open, 0u);
}

}  // namespace
}  // namespace swarm::ctl
