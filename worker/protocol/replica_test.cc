#include "worker/protocol/replica.h"

#include <gtest/gtest.h>

namespace swarm::protocol {
namespace {

const WorkerId kFirst("first"), kSelf("self"), kLast("last");

template <typename T>
const T* Find(const Actions& actions) {
  for (const Action& action : actions) {
    if (const T* found = std::get_if<T>(&action)) return found;
  }
  return nullptr;
}

/// A replica of the middle stage of three.
class ReplicaTest : public ::testing::Test {
 protected:
  static Replica Make(bool delayed = false) {
    return Replica({.self = kSelf,
                    .stage = StageIndex(1),
                    .stages = 3,
                    .groups = {GroupIndex(1)},
                    .keeps_previous_version = delayed});
  }
  static Forward Frame(std::uint64_t m, std::uint64_t step = 0, std::uint64_t version = 0,
                       std::uint64_t n = 1) {
    Forward frame;
    frame.key = {Generation(0), Step(step), Microbatch(m), StageIndex(1), {Term(1), n}};
    frame.version = Version(version);
    frame.hops = {{kFirst, {Term(1), n + 100}}, {kSelf, {Term(1), n}}, {kLast, {Term(1), n + 200}}};
    return frame;
  }
  static Backward BackOf(const Forward& frame) { return {frame.key, frame.version}; }
  static void Fold(Replica& replica, const Forward& frame) {
    (void)replica.OnForward(frame);
    (void)replica.OnForwardDone(frame.key, 0, {});
    (void)replica.OnBackward(kLast, BackOf(frame));
    ASSERT_NE(Find<action::FoldGradients>(replica.OnBackwardDone(frame.key, {})), nullptr);
  }
  static Reduce ReduceOf(std::vector<Microbatch> claims, std::uint64_t k = 1) {
    return {Term(1),       Generation(0), Step(0),
            GroupIndex(1), {Term(1), k},  {{kSelf, {StageIndex(1), std::move(claims)}}}};
  }
  static Commit CommitOf(const Digest& digest, std::uint64_t k = 1) {
    return {Term(1), {.step = Step(0), .groups = {{GroupIndex(1), {Term(1), k}, digest}}}};
  }
};

TEST_F(ReplicaTest, AMicrobatchGoesForwardAndBackwardAndIsFoldedOnce) {
  Replica replica = Make();
  const Forward frame = Frame(0);
  EXPECT_NE(Find<action::RunForward>(replica.OnForward(frame)), nullptr);
  const Actions forwarded = replica.OnForwardDone(frame.key, 0, {});
  const auto* send = Find<action::SendForward>(forwarded);
  ASSERT_NE(send, nullptr);
  EXPECT_EQ(send->to, kLast);
  EXPECT_EQ(send->message.key.stage, StageIndex(2));
  EXPECT_EQ(send->message.key.attempt, frame.hops[2].attempt);
  EXPECT_NE(Find<action::RunBackward>(replica.OnBackward(kLast, BackOf(frame))), nullptr);
  const Actions done = replica.OnBackwardDone(frame.key, {});
  EXPECT_EQ(Find<action::SendBackward>(done)->to, kFirst);
  EXPECT_NE(Find<action::FoldGradients>(done), nullptr);
  EXPECT_EQ(replica.FoldSet(Step(0)).microbatches, std::vector{Microbatch(0)});
}

TEST_F(ReplicaTest, DuplicatesAndSecondAttemptsOfAFoldedMicrobatchAreRefused) {
  Replica replica = Make();
  const Forward frame = Frame(0);
  (void)replica.OnForward(frame);
  EXPECT_EQ(Find<action::Refuse>(replica.OnForward(frame))->reason, "duplicate");
  (void)replica.OnForwardDone(frame.key, 0, {});
  (void)replica.OnBackward(kLast, BackOf(frame));
  EXPECT_EQ(Find<action::Refuse>(replica.OnBackward(kLast, BackOf(frame)))->reason, "duplicate");
  (void)replica.OnBackwardDone(frame.key, {});
  EXPECT_EQ(Find<action::Refuse>(replica.OnForward(Frame(0, 0, 0, 9)))->reason, "folded already");
}

TEST_F(ReplicaTest, TwoAttemptsInFlightFoldOnlyOnce) {
  Replica replica = Make();
  const Forward one = Frame(0, 0, 0, 1), two = Frame(0, 0, 0, 2);
  for (const Forward& frame : {one, two}) {
    (void)replica.OnForward(frame);
    (void)replica.OnForwardDone(frame.key, 0, {});
    (void)replica.OnBackward(kLast, BackOf(frame));
  }
  EXPECT_NE(Find<action::FoldGradients>(replica.OnBackwardDone(one.key, {})), nullptr);
  const Actions second = replica.OnBackwardDone(two.key, {});
  EXPECT_EQ(Find<action::FoldGradients>(second), nullptr);
  EXPECT_NE(Find<action::SendBackward>(second), nullptr);  // its gradient may still be wanted
}

TEST_F(ReplicaTest, APropagateOnlyTaskNeverFolds) {
  Replica replica = Make();
  Forward frame = Frame(0);
  frame.hops[1].fold = false;
  (void)replica.OnForward(frame);
  (void)replica.OnForwardDone(frame.key, 0, {});
  (void)replica.OnBackward(kLast, BackOf(frame));
  EXPECT_EQ(Find<action::FoldGradients>(replica.OnBackwardDone(frame.key, {})), nullptr);
  EXPECT_TRUE(replica.FoldSet(Step(0)).microbatches.empty());
}

TEST_F(ReplicaTest, FramesForOthersOfOtherGenerationsAndFromWrongSendersAreRefused) {
  Replica replica = Make();
  Forward other = Frame(0);
  other.hops[1].worker = kLast;
  EXPECT_EQ(Find<action::Refuse>(replica.OnForward(other))->reason, "addressee");
  Forward old = Frame(0);
  old.key.generation = Generation(7);
  EXPECT_EQ(Find<action::Refuse>(replica.OnForward(old))->reason, "generation");
  const Forward frame = Frame(0);
  (void)replica.OnForward(frame);
  (void)replica.OnForwardDone(frame.key, 0, {});
  EXPECT_EQ(Find<action::Refuse>(replica.OnBackward(kFirst, BackOf(frame)))->reason, "sender");
}

TEST_F(ReplicaTest, AFrameOfAVersionToComeWaitsForIt) {
  Replica replica = Make();
  EXPECT_TRUE(replica.OnForward(Frame(0, 1, 1)).empty());
  ASSERT_NE(Find<action::StartReduce>(replica.OnReduce(ReduceOf({}))), nullptr);
  (void)replica.OnGroupReduced(Step(0), GroupIndex(1), {Term(1), 1}, {1, 1}, {});
  ASSERT_NE(Find<action::ApplyCommit>(replica.OnCommit(CommitOf({1, 1}))), nullptr);
  EXPECT_NE(Find<action::RunForward>(replica.OnApplied(Step(0), {})), nullptr);
  EXPECT_EQ(Find<action::Refuse>(replica.OnForward(Frame(1, 1, 0)))->reason, "version gone");
}

TEST_F(ReplicaTest, InDelayedModeThePreviousVersionCanStillBeRead) {
  Replica replica = Make(/*delayed=*/true);
  (void)replica.OnReduce(ReduceOf({}));
  (void)replica.OnGroupReduced(Step(0), GroupIndex(1), {Term(1), 1}, {1, 1}, {});
  (void)replica.OnCommit(CommitOf({1, 1}));
  (void)replica.OnApplied(Step(0), {});
  EXPECT_NE(Find<action::RunForward>(replica.OnForward(Frame(0, 1, 0))), nullptr);
}

TEST_F(ReplicaTest, AReduceWithOtherClaimsIsRefusedWithTheTruthAndFreezesNothing) {
  Replica replica = Make();
  Fold(replica, Frame(0));
  const Actions actions = replica.OnReduce(ReduceOf({Microbatch(0), Microbatch(1)}));
  const auto* tell = Find<action::Tell>(actions);
  ASSERT_NE(tell, nullptr);
  EXPECT_EQ(std::get<ReduceRefused>(tell->message).folded.microbatches, std::vector{Microbatch(0)});
  EXPECT_NE(Find<action::RunForward>(replica.OnForward(Frame(1))), nullptr);  // still open
}

TEST_F(ReplicaTest, AFrozenStepTakesNoMoreFolds) {
  Replica replica = Make();
  Fold(replica, Frame(0));
  const Forward late = Frame(1);
  (void)replica.OnForward(late);
  (void)replica.OnForwardDone(late.key, 0, {});
  (void)replica.OnBackward(kLast, BackOf(late));
  ASSERT_NE(Find<action::StartReduce>(replica.OnReduce(ReduceOf({Microbatch(0)}))), nullptr);
  EXPECT_EQ(Find<action::FoldGradients>(replica.OnBackwardDone(late.key, {})), nullptr);
  EXPECT_EQ(Find<action::Refuse>(replica.OnForward(Frame(2)))->reason, "frozen step");
}

TEST_F(ReplicaTest, OnlyTheResultThatTheCommitNamesIsApplied) {
  Replica replica = Make();
  (void)replica.OnReduce(ReduceOf({}, 1));
  (void)replica.OnReduce(ReduceOf({}, 2));
  // The first attempt's result comes late: it is not the one that was asked for last.
  EXPECT_TRUE(replica.OnGroupReduced(Step(0), GroupIndex(1), {Term(1), 1}, {1, 1}, {}).empty());
  (void)replica.OnGroupReduced(Step(0), GroupIndex(1), {Term(1), 2}, {2, 2}, {});
  Replica other = replica;
  EXPECT_NE(Find<action::Fail>(other.OnCommit(CommitOf({1, 1}, 2))), nullptr);
  EXPECT_NE(Find<action::ApplyCommit>(replica.OnCommit(CommitOf({2, 2}, 2))), nullptr);
  EXPECT_TRUE(replica.OnCommit(CommitOf({2, 2}, 2)).empty());  // idempotent
}

TEST_F(ReplicaTest, ControlOfALowerTermIsRefused) {
  Replica replica = Make();
  Reduce newer = ReduceOf({}, 1);
  newer.term = Term(2);
  (void)replica.OnReduce(newer);
  EXPECT_EQ(Find<action::Refuse>(replica.OnReduce(ReduceOf({}, 5)))->reason, "term");
  EXPECT_EQ(Find<action::Refuse>(replica.OnCommit(CommitOf({1, 1})))->reason, "term");
}

TEST_F(ReplicaTest, ACheckpointIsTakenAtItsVersionAndOfNoOther) {
  Replica replica = Make();
  EXPECT_NE(Find<action::TakeCheckpoint>(
                replica.OnWriteCheckpoint({Term(1), Generation(0), Version(0), "uri"})),
            nullptr);
  EXPECT_TRUE(replica.OnWriteCheckpoint({Term(1), Generation(0), Version(1), "uri"}).empty());
  (void)replica.OnReduce(ReduceOf({}));
  (void)replica.OnGroupReduced(Step(0), GroupIndex(1), {Term(1), 1}, {1, 1}, {});
  (void)replica.OnCommit(CommitOf({1, 1}));
  EXPECT_NE(Find<action::TakeCheckpoint>(replica.OnApplied(Step(0), {})), nullptr);
  const Actions late = replica.OnWriteCheckpoint({Term(1), Generation(0), Version(0), "uri"});
  EXPECT_FALSE(std::get<CheckpointWritten>(Find<action::Tell>(late)->message).error.empty());
}

}  // namespace
}  // namespace swarm::protocol
