#include "worker/page/state/view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace swarm::page {
namespace {

using nlohmann::json;
using protocol::StageIndex;
using protocol::StageStatus;
using protocol::WorkerId;
using protocol::WorkerState;

StageStatus::Worker WorkerOf(const std::string& id, double rate,
                             WorkerState state = WorkerState::kReady) {
  StageStatus::Worker worker{.id = WorkerId(id)};
  worker.microbatches_per_second = rate;
  worker.state = state;
  return worker;
}

JobView ViewOf(std::vector<std::vector<StageStatus::Worker>> stages) {
  JobView view;
  for (auto& workers : stages) {
    const StageIndex stage(view.status.stages.size());
    view.status.stages.push_back({.stage = stage, .workers = std::move(workers)});
  }
  return view;
}

json Shown(const JobView& view, double now = 0) { return json::parse(ToJson(view, "tiny", now)); }

TEST(ViewTest, TheSlowestStageIsTheBottleneck) {
  const json stages = Shown(ViewOf({{WorkerOf("a", 4), WorkerOf("b", 4)},
                                    {WorkerOf("c", 5), WorkerOf("d", 9, WorkerState::kJoining)},
                                    {WorkerOf("e", 7)}}))
                          .at("stages");
  EXPECT_EQ(stages[0].at("microbatchesPerSecond"), 8.0);
  EXPECT_EQ(stages[1].at("microbatchesPerSecond"), 5.0) << "d does not serve yet";
  EXPECT_FALSE(stages[0].at("bottleneck"));
  EXPECT_TRUE(stages[1].at("bottleneck"));
  EXPECT_FALSE(stages[2].at("bottleneck"));
}

TEST(ViewTest, EqualStagesHaveNoBottleneck) {
  for (const auto& view : {ViewOf({}), ViewOf({{WorkerOf("a", 4)}}),
                           ViewOf({{WorkerOf("a", 4)}, {WorkerOf("b", 4)}})}) {
    const json shown = Shown(view);
    for (const json& stage : shown.at("stages")) EXPECT_FALSE(stage.at("bottleneck"));
  }
}

TEST(ViewTest, AWorkerHasTheDetailsThatAreKnown) {
  JobView view = ViewOf({{WorkerOf("a", 4), WorkerOf("b", 4), WorkerOf("c", 4)}});
  view.members[WorkerId("a")] = {
      .region = "eu", .version = protocol::Version(7), .round_trip = 0.08};
  view.members[WorkerId("b")] = {.region = "us"};
  const json workers = Shown(view).at("stages")[0].at("workers");
  EXPECT_EQ(workers[0].at("region"), "eu");
  EXPECT_EQ(workers[0].at("version"), 7);
  EXPECT_EQ(workers[0].at("roundTrip"), 0.08);
  EXPECT_FALSE(workers[1].contains("roundTrip"));
  EXPECT_FALSE(workers[2].contains("region"));
}

TEST(ViewTest, ABoundaryHasTheBytesOfAMicrobatchAndThoseOfASecond) {
  JobView view = ViewOf({{WorkerOf("a", 4)}, {WorkerOf("b", 4)}, {WorkerOf("c", 4)}});
  view.boundaries = {{.forward = 3000, .backward = 1000}, {}};
  view.tokens_of_microbatch = 256;
  view.status.tokens_per_second = 512;
  const json stages = Shown(view).at("stages");
  EXPECT_EQ(stages[0].at("boundary"),
            (json{{"forward", 3000.0}, {"backward", 1000.0}, {"bytesPerSecond", 8000.0}}));
  EXPECT_TRUE(stages[1].at("boundary").is_null()) << "no worker has told";
  EXPECT_TRUE(stages[2].at("boundary").is_null()) << "there is no stage behind it";
}

TEST(ViewTest, WhatIsMeasuredOfAWorkerHasFourDigits) {
  JobView view = ViewOf({{WorkerOf("a", 5.123456789), WorkerOf("b", 123456.789)}});
  view.status.stages[0].workers[0].utilization = 0.81234567;
  view.status.stages[0].workers[1].utilization = 1e-9 / 3;
  const json workers = Shown(view).at("stages")[0].at("workers");
  EXPECT_EQ(workers[0].at("microbatchesPerSecond").dump(), "5.123");
  EXPECT_EQ(workers[1].at("microbatchesPerSecond").dump(), "123500.0");
  EXPECT_EQ(workers[0].at("utilization").dump(), "0.8123");
  EXPECT_EQ(workers[1].at("utilization").dump(), "3.333e-10");
}

TEST(ViewTest, AWorkerThatWasLostIsShownForAMinuteUnlessItCameBack) {
  JobView view = ViewOf({{WorkerOf("back", 4)}});
  for (const char* id : {"back", "lost"}) {
    view.status.evicted.push_back({.number = 1,
                                   .worker = WorkerId(id),
                                   .stage = StageIndex(0),
                                   .cause = protocol::EvictionCause::kSilent,
                                   .text = "no sign of life",
                                   .time = 100});
  }
  const json lost = Shown(view, 160).at("lost");
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].at("id"), "lost");
  EXPECT_EQ(lost[0].at("cause"), "Silent");
  EXPECT_TRUE(Shown(view, 161).at("lost").empty());
}

TEST(ViewTest, ItSaysWhatTheWorkersCostWhereThePriceOfOneIsKnown) {
  JobView view = ViewOf({{WorkerOf("a", 4), WorkerOf("b", 4)}, {WorkerOf("c", 4)}});
  view.status.spares = {WorkerId("d")};
  EXPECT_TRUE(Shown(view).at("dollarsPerHour").is_null());
  view.worker_price = {.least = 0.25, .most = 0.5};
  EXPECT_EQ(Shown(view).at("dollarsPerHour"),
            (json{{"least", 1.0}, {"most", 2.0}, {"text", "$1.00 to $2.00"}}));
}

TEST(ViewTest, GoodputCountsWhatWasRedoneAndWhatWasDiscarded) {
  JobView view;
  view.contributions_of_step = 10;
  EXPECT_TRUE(std::isnan(Goodput(view)));
  EXPECT_TRUE(Shown(view).at("goodput").is_null());
  view.committed_steps = 9;
  EXPECT_EQ(Goodput(view), 1);
  view.status.counts.replays = 10;
  EXPECT_DOUBLE_EQ(Goodput(view), 0.9);
  view.discarded_steps = 4;
  EXPECT_DOUBLE_EQ(Goodput(view), 0.5);
  view.discarded_steps = 100;
  EXPECT_EQ(Goodput(view), 0) << "steps of a trainer before this one";
}

TEST(ViewTest, AnyTextAndAnyNumberIsJson) {
  JobView view = ViewOf({{WorkerOf("a", INFINITY)}});
  view.status.message = "no UTF-8: \xff";
  view.status.loss = NAN;
  EXPECT_TRUE(Shown(view).at("loss").is_null());
}

}  // namespace
}  // namespace swarm::page
