#include "worker/protocol/coordinator/step/validation.h"

#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

using std::chrono::seconds;

class ValidationTest : public testing::Test {
 protected:
  static CoordinatorOptions Options() {
    CoordinatorOptions options;
    options.replicas = {1, 1};
    options.max_steps = 10;
    options.validation_interval_steps = 4;
    options.validation_microbatches = 2;
    return options;
  }
  ValidationTest() { router_.SetReplicas({{WorkerId("a1")}, {WorkerId("b1")}}); }

  void Begin() {
    job_.version = Version(4);
    validation_.OnNewVersion();
  }
  /// The frames that are issued now.
  std::vector<Forward> Issue(Timepoint now = {}) {
    Turn turn{now};
    while (validation_.Issue(turn)) {
    }
    std::vector<Forward> frames;
    for (const Order& order : turn.orders) frames.push_back(std::get<order::Issue>(order).frame);
    return frames;
  }
  /// The last stage reports the loss of the frame.
  Orders Report(const Forward& frame, double loss, const std::string& from = "b1") {
    TaskReport report{.key = frame.key, .event = TaskReport::Event::kEvaluated, .loss = loss};
    report.key.stage = StageIndex(1);
    report.key.attempt = frame.hops[1].attempt;
    validation_.OnEvaluated(WorkerId(from), report);
    Turn turn{Timepoint()};
    validation_.FinishIfKnown(turn);
    return turn.orders;
  }

  Job job_{Options(), Timepoint()};
  Router router_{1, 2};
  Members members_{&job_};
  Validation validation_{&job_, &members_, &router_};
};

TEST_F(ValidationTest, ItBeginsAtVersionsOfTheIntervalAndAtTheLast) {
  for (const std::uint64_t version : {3, 5}) {
    job_.version = Version(version);
    validation_.OnNewVersion();
    EXPECT_FALSE(validation_.IsOpen()) << version;
  }
  for (const std::uint64_t version : {4, 10}) {
    job_.version = Version(version);
    validation_.OnNewVersion();
    EXPECT_TRUE(validation_.IsOpen()) << version;
    validation_.Cancel();
  }
}

TEST_F(ValidationTest, ItsLossIsTheMeanOverAllMicrobatches) {
  Begin();
  const auto frames = Issue();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].kind, TaskKind::kEvaluate);
  EXPECT_EQ(frames[0].version, Version(4));
  EXPECT_TRUE(Report(frames[0], 1).empty());
  const Orders orders = Report(frames[1], 2);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(std::get<order::Validated>(orders[0]).version, Version(4));
  EXPECT_EQ(std::get<order::Validated>(orders[0]).loss, 1.5);
  EXPECT_EQ(validation_.loss(), 1.5);
  EXPECT_FALSE(validation_.IsOpen());
}

TEST_F(ValidationTest, ItsLossIsToldWhenAllReplicasHaveReportedTheirStates) {
  Worker& late = members_.Add({.id = WorkerId("b1")});
  members_.Become(late, Role::kReady, StageIndex(1));
  Begin();
  const auto frames = Issue();
  EXPECT_TRUE(Report(frames[0], 1).empty());
  EXPECT_TRUE(Report(frames[1], 2).empty());
  EXPECT_TRUE(validation_.IsOpen());
  members_.SetVersion(late, Version(4));
  Turn turn{Timepoint()};
  validation_.FinishIfKnown(turn);
  EXPECT_EQ(std::get<order::Validated>(turn.orders.at(0)).loss, 1.5);
}

TEST_F(ValidationTest, WhatWasEvaluatedWithWrongWeightsIsEvaluatedAgain) {
  Begin();
  (void)Report(Issue()[0], 9);
  validation_.BeginAgain();
  EXPECT_EQ(router_.in_flight(WorkerId("a1")), 0u);
  const auto frames = Issue();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_TRUE(Report(frames[0], 1).empty());
  EXPECT_EQ(std::get<order::Validated>(Report(frames[1], 2).at(0)).loss, 1.5);
}

TEST_F(ValidationTest, AReportOfAnotherAttemptOrWorkerDoesNotCount) {
  Begin();
  const auto frames = Issue();
  Forward other = frames[0];
  ++other.hops[1].attempt.n;
  EXPECT_TRUE(Report(other, 9).empty());
  EXPECT_TRUE(Report(frames[0], 9, "a1").empty());
  (void)Report(frames[0], 1);
  (void)Report(frames[0], 9);  // again
  EXPECT_EQ(std::get<order::Validated>(Report(frames[1], 1).at(0)).loss, 1);
}

TEST_F(ValidationTest, WhatALostWorkerHadIsIssuedAgain) {
  Begin();
  const auto frames = Issue();
  EXPECT_TRUE(validation_.Needs(WorkerId("b1"), StageIndex(1)));
  EXPECT_FALSE(validation_.Needs(WorkerId("b1"), StageIndex(0)));
  validation_.Lose(WorkerId("b1"));
  EXPECT_TRUE(validation_.HasUnissued());
  EXPECT_EQ(router_.in_flight(WorkerId("a1")), 0u);
  const auto again = Issue();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_NE(again[0].hops[1].attempt, frames[0].hops[1].attempt);
}

TEST_F(ValidationTest, AMicrobatchThatIsLateIsIssuedAgain) {
  Begin();
  (void)Issue(Timepoint(seconds(10)));
  validation_.IssueAgainAfter(seconds(5), Timepoint(seconds(14)));
  EXPECT_FALSE(validation_.HasUnissued());
  validation_.IssueAgainAfter(seconds(5), Timepoint(seconds(15)));
  EXPECT_TRUE(validation_.HasUnissued());
}

}  // namespace
}  // namespace swarm::protocol
