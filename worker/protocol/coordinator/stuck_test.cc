// Work that does not end although no worker departs: revoked attempts, devices that hang.
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

class CoordinatorStuckTest : public CoordinatorTest {
 protected:
  /// Three stages of which the middle one has two replicas, and one microbatch.
  void StartWithOneMicrobatch() {
    options_.microbatches = 1;
    StartTraining({1, 2, 1});
    Listen();
  }
};

TEST_F(CoordinatorStuckTest, AStuckAttemptIsRevokedAndIssuedAgainOnlyWhenItIsClosed) {
  StartWithOneMicrobatch();
  Forward(0, 0);
  const std::string slow = Owner(0, 1);
  const TaskKey key = Key(0, 1);
  Pass(options_.patience.first_microbatch);
  EXPECT_TRUE(Happened("MicrobatchStuck"));
  EXPECT_EQ(Told<Revoke>(slow).at(0).key, key);
  EXPECT_TRUE(WhoWasTold<Resend>().empty());
  Say(slow, Revoked{key, false});
  EXPECT_NE(Owner(0, 1), slow);  // there is another
  EXPECT_GT(Key(0, 1).attempt, key.attempt);
  EXPECT_EQ(Told<Resend>("a1").size(), 1u);
  CompleteStep();
}

TEST_F(CoordinatorStuckTest, WhatWasFoldedBeforeItsRevokeStaysCredited) {
  StartWithOneMicrobatch();
  for (const std::uint64_t s : {0, 1, 2}) Forward(0, s);
  Fold(0, 2);
  const std::string owner = Owner(0, 1);
  const TaskKey key = Key(0, 1);
  Pass(options_.patience.first_microbatch);
  ASSERT_EQ(Told<Revoke>(owner).size(), 1u);
  Say(owner, Revoked{key, true});
  EXPECT_EQ(Key(0, 1), key);
  EXPECT_TRUE(WhoWasTold<Resend>().empty());
  CompleteStep();
  EXPECT_EQ(step(), 1u);
}

TEST_F(CoordinatorStuckTest, AReportThatOvertakesTheAnswerToARevokeIsCreditedOnce) {
  StartWithOneMicrobatch();
  for (const std::uint64_t s : {0, 1, 2}) Forward(0, s);
  Fold(0, 2);
  const std::string owner = Owner(0, 1);
  const TaskKey key = Key(0, 1);
  Pass(options_.patience.first_microbatch);
  Fold(0, 1);
  Say(owner, Revoked{key, true});
  EXPECT_EQ(Key(0, 1), key);
  CompleteStep();
}

TEST_F(CoordinatorStuckTest, WhoDoesNotAnswerARevokeIsEvictedAndToldToComeBack) {
  StartWithOneMicrobatch();
  Forward(0, 0);
  const std::string silent = Owner(0, 1);
  Pass(options_.patience.first_microbatch);
  Pass(options_.patience.revoke);
  EXPECT_TRUE(Told<Shutdown>(silent).empty()) << "a large swarm takes longer to answer";
  Pass(4 * options_.patience.revoke_member);
  EXPECT_TRUE(Told<Shutdown>(silent).at(0).rejoin);
  EXPECT_NE(Owner(0, 1), silent);
  CompleteStep();
}

TEST_F(CoordinatorStuckTest, AnAnswerToAnotherRevokeClosesNothing) {
  StartWithOneMicrobatch();
  Forward(0, 0);
  const TaskKey key = Key(0, 1);
  Pass(options_.patience.first_microbatch);
  Say("a1", Revoked{Key(0, 0), false});
  TaskKey other = key;
  other.attempt.n += 100;
  Say(Owner(0, 1), Revoked{other, false});
  EXPECT_EQ(Key(0, 1), key);
}

TEST_F(CoordinatorStuckTest, SignsOfProgressKeepAMicrobatch) {
  StartWithOneMicrobatch();
  const Duration patience = options_.patience.first_microbatch;
  Pass(patience * 3 / 4);
  Forward(0, 0);
  Pass(patience * 3 / 4);
  EXPECT_FALSE(Happened("MicrobatchStuck"));
}

TEST_F(CoordinatorStuckTest, AWorkerThatWaitsForTokensIsNotToBlame) {
  StartWithOneMicrobatch();
  const Duration patience = options_.patience.first_microbatch;
  for (int i = 0; i < 3; ++i) {
    coordinator().OnTokensAwaited({Key(0, 0)}, now_ + patience * 3 / 4);
    Pass(patience * 3 / 4);
  }
  EXPECT_FALSE(Happened("MicrobatchStuck"));
  TaskKey other = Key(0, 0);
  other.attempt.n += 100;
  coordinator().OnTokensAwaited({other}, now_);
  Pass(patience);
  EXPECT_TRUE(Happened("MicrobatchStuck"));
}

TEST_F(CoordinatorStuckTest, PatienceGrowsWithEveryTry) {
  StartWithOneMicrobatch();
  Duration waited{};
  for (int i = 0; i < 2; ++i) {
    Listen();
    Duration now{};
    for (; WhoWasTold<Revoke>().empty() && now < std::chrono::hours(1); now += seconds(1)) {
      Pass(seconds(1));
    }
    EXPECT_GT(now, waited);
    waited = now;
    Say(Owner(0, 0), Revoked{Key(0, 0), false});
  }
}

TEST_F(CoordinatorStuckTest, ARevokeOfWhatIsVoidedKeepsNothingFromBeingIssued) {
  StartTraining({1});
  Fold(0, 0);
  Pass(options_.patience.first_microbatch);
  ASSERT_EQ(Told<Revoke>("a1").size(), 1u);
  // Its report was on the way, so it is credited; then it turns out that its sums are no good.
  Fold(1, 0);
  Say("a1", ReduceRefused{Generation(0),
                          Step(0),
                          GroupIndex(0),
                          Asked("a1", 0).k,
                          {StageIndex(0), {Microbatch(0), Microbatch(1)}}});
  Listen();
  AnswerVoids("a1");
  EXPECT_EQ(Issued().size(), 2u);
  CompleteStep();
}

// ---- heartbeats ----

TEST_F(CoordinatorStuckTest, WhoHasJustBegunItsFirstTaskDoesNotHang) {
  StartTraining({1, 1});
  Listen();
  Beat("a1", {.compute_progress = 0, .queued_tasks = 1});
  Beat("b1", {.compute_progress = 3, .queued_tasks = 1});
  EXPECT_TRUE(orders().empty());
}

TEST_F(CoordinatorStuckTest, ADeviceThatHangsWhileItsProcessLivesIsALoss) {
  StartTraining({1, 2});
  CompleteStep();
  Beat("b1", {.compute_progress = 5, .queued_tasks = 1});
  now_ += seconds(1);
  Beat("b1", {.compute_progress = 6, .queued_tasks = 1});
  Listen();
  now_ += seconds(2);
  Beat("b1", {.compute_progress = 6, .queued_tasks = 1});
  EXPECT_TRUE(orders().empty());
  now_ += std::chrono::minutes(10);
  Beat("b1", {.compute_progress = 6, .queued_tasks = 1});
  EXPECT_TRUE(Told<Shutdown>("b1").at(0).rejoin);
}

TEST_F(CoordinatorStuckTest, WhoHasNothingToDoDoesNotHang) {
  StartTraining({1, 2});
  CompleteStep();
  Beat("b1", {.compute_progress = 5, .queued_tasks = 1});
  Listen();
  now_ += std::chrono::minutes(10);
  Beat("b1", {.compute_progress = 5, .queued_tasks = 0});
  EXPECT_TRUE(orders().empty());
}

}  // namespace
}  // namespace swarm::protocol
