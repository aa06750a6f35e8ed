// A departure in the middle of a step: eviction, repair, sums made anew.
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"
#include "worker/protocol/grid/reduce_grid.h"

namespace swarm::protocol {
namespace {

class CoordinatorRecoveryTest : public CoordinatorTest {
 protected:
  /// Three stages of which the middle one has two replicas, and one microbatch.
  void StartWithOneMicrobatch() {
    options_.microbatches = 1;
    StartTraining({1, 2, 1});
    Listen();
  }
  void LoseOwner(std::uint64_t m, std::uint64_t stage) {
    const std::string owner = Owner(m, stage);
    Lose(owner);
    ASSERT_NE(Owner(m, stage), owner);
  }
  /// An order before another one.
  template <typename First, typename Second>
  void ExpectOrder() {
    bool first = false;
    for (const Order& order : orders()) {
      const auto* tell = std::get_if<order::Tell>(&order);
      if (tell == nullptr) continue;
      first |= std::holds_alternative<First>(tell->message);
      if (std::holds_alternative<Second>(tell->message)) {
        EXPECT_TRUE(first);
        return;
      }
    }
    FAIL() << "the second was never told";
  }
};

// ---- eviction and repair ----

TEST_F(CoordinatorRecoveryTest, ALossIsANewEpochWithoutTheWorkerBeforeItsWorkGoesToOthers) {
  StartWithOneMicrobatch();
  Forward(0, 0);
  const std::string lost = Owner(0, 1);
  Lose(lost);
  EXPECT_TRUE(Happened("WorkerLost"));
  EXPECT_EQ(All<order::Forget>().at(0).worker, WorkerId(lost));
  EXPECT_EQ(Told<RosterChange>("a1"),
            (std::vector{RosterChange{Term(1), {}, Epoch(2), {}, {WorkerId(lost)}, {}}}));
  ExpectOrder<RosterChange, Resend>();
}

TEST_F(CoordinatorRecoveryTest, ProgramsReadFromTheEventWhoWasLostWhereAndWhy) {
  StartTraining({1, 2, 1});
  now_ += seconds(7);
  Listen();
  FallSilent("b2");
  EXPECT_EQ(
      All<order::Event>().at(0).fields,
      (EventFields{
          .worker = WorkerId("b2"), .stage = StageIndex(1), .cause = "Silent", .seconds = 7}));
}

TEST_F(CoordinatorRecoveryTest, ALossInForwardIsRepairedFromWhatTheStageBelowHolds) {
  StartWithOneMicrobatch();
  Forward(0, 0);
  const Attempt attempt = Key(0, 1).attempt;
  LoseOwner(0, 1);
  const Resend resend = Told<Resend>("a1").at(0);
  EXPECT_EQ(resend.source, Key(0, 0));
  EXPECT_EQ(resend.frame.key, Key(0, 1));
  EXPECT_GT(resend.frame.key.attempt, attempt);
  EXPECT_EQ(Told<Redirect>("c1").at(0).target, Key(0, 1));
  EXPECT_TRUE(Issued().empty());  // nothing else is computed again
  CompleteStep();
}

TEST_F(CoordinatorRecoveryTest, ALossAfterTheFoldIsRepairedToo) {
  StartWithOneMicrobatch();
  for (const std::uint64_t s : {0, 1, 2}) Forward(0, s);
  Fold(0, 2);
  Fold(0, 1);
  Fold(0, 0);
  LoseOwner(0, 1);
  EXPECT_EQ(Told<Resend>("a1").size(), 1u);
  EXPECT_EQ(Told<Redirect>("c1").size(), 1u);
  EXPECT_TRUE(Told<Resend>("a1")[0].frame.upstream.worker.empty());
  CompleteStep();
}

TEST_F(CoordinatorRecoveryTest, TheAccountOfTheStepNamesWhatWasDoneAgain) {
  StartWithOneMicrobatch();
  Forward(0, 0);
  Forward(0, 1);
  Forward(0, 2);
  Fold(0, 2);
  Fold(0, 1);
  const WorkerId lost(Owner(0, 1));
  LoseOwner(0, 1);
  CompleteStep();
  EXPECT_EQ(All<order::StepDone>().at(0).redone,
            (std::vector<Redone>{{lost, StageIndex(1), Microbatch(0), /*folded=*/true}}));
}

TEST_F(CoordinatorRecoveryTest, ALossOfTheFirstStageReadsTheTokensAgain) {
  options_.microbatches = 1;
  StartTraining({2, 1});
  Listen();
  Forward(0, 0);
  Forward(0, 1);
  LoseOwner(0, 0);
  ASSERT_EQ(Issued().size(), 1u);
  EXPECT_EQ(Issued()[0].end, StageIndex(1));
  EXPECT_EQ(Told<Redirect>("b1").at(0).to, WorkerId(Owner(0, 0)));
  CompleteStep();
}

TEST_F(CoordinatorRecoveryTest, ANeighbourThatIsLostDuringARepairIsRepairedFromWhoIsRepairing) {
  options_.microbatches = 1;
  StartTraining({1, 2, 2, 1});
  for (const std::uint64_t s : {0, 1, 2}) Forward(0, s);
  LoseOwner(0, 1);
  Listen();
  LoseOwner(0, 2);
  const Resend resend = Told<Resend>(Owner(0, 1)).at(0);
  EXPECT_EQ(resend.source, Key(0, 1));
  EXPECT_EQ(resend.frame.upstream.worker, WorkerId(Owner(0, 1)));
  EXPECT_EQ(Told<Redirect>("d1").at(0).target, Key(0, 2));
  EXPECT_TRUE(Told<Resend>("a1").empty());  // asked for already
  CompleteStep();
}

TEST_F(CoordinatorRecoveryTest, WhatTheDeadFoldedCountsForNothing) {
  options_.microbatches = 4;
  StartTraining({1, 2});
  FoldAll();
  Lose("b1");
  FoldAll();
  const protocol::Reduce& reduce = Asked("b2", 1);
  EXPECT_EQ(reduce.participants.size(), 1u);
  EXPECT_EQ(reduce.claims.microbatches.size(), 4u);
}

TEST_F(CoordinatorRecoveryTest, AReportOfTheDeadThatComesLateChangesNothing) {
  StartWithOneMicrobatch();
  const std::string lost = Owner(0, 1);
  const TaskKey key = Key(0, 1);
  LoseOwner(0, 1);
  Listen();
  Say(lost, Progress{{{.key = key, .event = TaskReport::Event::kFolded}}});
  Fold(0, 0);
  Fold(0, 2);
  EXPECT_FALSE(WhoWasTold<protocol::Reduce>().contains("b1"));
  EXPECT_FALSE(WhoWasTold<protocol::Reduce>().contains("b2"));
}

TEST_F(CoordinatorRecoveryTest, RepairsComeBeforeFreshMicrobatches) {
  options_.microbatches = 50;
  StartTraining({1, 2});
  Listen();
  Lose("b1");  // b2 is full with its own and these
  EXPECT_FALSE(WhoWasTold<Resend>().empty());
  EXPECT_TRUE(Issued().empty());
  CompleteStep();
}

TEST_F(CoordinatorRecoveryTest, WhoComesBackIsANewWorkerThatHasToJoin) {
  StartWithOneMicrobatch();
  Lose("b1");
  Listen();
  Come("b1", 2);
  EXPECT_TRUE(WhoWasTold<RosterChange>().empty());
  EXPECT_FALSE(WhoWasTold<PinState>().empty());
  CompleteStep();
}

// ---- outputs that are not retained any more ----

TEST_F(CoordinatorRecoveryTest, WhereAnOutputIsMissingItsStageRecomputesAndDoesNotContribute) {
  options_.microbatches = 1;
  StartTraining({1, 1, 2});
  for (const std::uint64_t s : {0, 1}) Forward(0, s);
  LoseOwner(0, 2);
  const TaskKey source = Told<Resend>("b1").at(0).source;
  Listen();
  Say("b1", Missing{source, false});
  const Resend resend = Told<Resend>("a1").at(0);
  EXPECT_EQ(resend.source, Key(0, 0));
  EXPECT_EQ(resend.frame.key.stage, StageIndex(1));
  EXPECT_FALSE(resend.frame.hops[1].fold);
  EXPECT_NE(resend.frame.hops[1].attempt, source.attempt);
  EXPECT_EQ(resend.frame.first, StageIndex(2));
  Listen();
  Say("a1", Missing{resend.source, false});  // nor that: the tokens suffice
  ASSERT_EQ(Issued().size(), 1u);
  EXPECT_FALSE(Issued()[0].hops[0].fold);
  EXPECT_FALSE(Issued()[0].hops[1].fold);
  EXPECT_TRUE(Issued()[0].hops[2].fold);
  CompleteStep();
}

TEST_F(CoordinatorRecoveryTest, AGradientThatIsMissingIsRecomputedWithoutContributing) {
  StartWithOneMicrobatch();
  for (const std::uint64_t s : {0, 1, 2}) Forward(0, s);
  Fold(0, 2);
  LoseOwner(0, 1);
  const Redirect redirect = Told<Redirect>("c1").at(0);
  Listen();
  Say("c1", Missing{redirect.source, true});
  const Resend resend = Told<Resend>(Owner(0, 1)).at(0);
  EXPECT_EQ(resend.frame.key.stage, StageIndex(2));
  EXPECT_EQ(resend.frame.hops[2].worker, WorkerId("c1"));
  EXPECT_FALSE(resend.frame.hops[2].fold);
  EXPECT_EQ(resend.frame.upstream.worker, WorkerId(Owner(0, 1)));
  EXPECT_EQ(Asked("c1", 2).claims.microbatches.size(), 1u);
  CompleteStep();
}

TEST_F(CoordinatorRecoveryTest, WhatIsMissingForAnOrderThatWasNotGivenIsIgnored) {
  StartWithOneMicrobatch();
  Forward(0, 0);
  Say("a1", Missing{Key(0, 0), false});
  Say("a1", Missing{{Generation(0), Step(0), Microbatch(77), StageIndex(0), {}}, false});
  Say("a1", Missing{{Generation(0), Step(0), Microbatch(0), StageIndex(77), {}}, true});
  EXPECT_TRUE(orders().empty());
}

// ---- sums that have to be made anew ----

TEST_F(CoordinatorRecoveryTest, ALossInAReduceThawsRepairsAndSumsAgainUnderAHigherNumber) {
  options_.microbatches = 4;
  StartTraining({1, 2});
  FoldAll();
  const Attempt k = Asked("b2", 1).k;
  Reduce("a1", 0);
  Listen();
  Lose("b1");
  EXPECT_EQ(WhoWasTold<Thaw>(), std::set<std::string>{"b2"});  // the first stage stays frozen
  EXPECT_TRUE(WhoWasTold<protocol::Reduce>().empty());
  FoldAll();
  EXPECT_GT(Asked("b2", 1).k, k);
  Say("b2", Reduced{Generation(0), Step(0), GroupIndex(1), k, {1, 1}, {}});  // of the old sum
  EXPECT_EQ(step(), 0u);
  Reduce("b2", 1);
  EXPECT_EQ(step(), 1u);
  EXPECT_GT(Told<Commit>("a1").at(0).record.groups.at(1).k, k);
}

TEST_F(CoordinatorRecoveryTest, ALossAfterItsReportIsALossAllTheSame) {
  options_.microbatches = 4;
  StartTraining({1, 2});
  FoldAll();
  Reduce("b1", 1);
  Lose("b1");
  FoldAll();
  Reduce();
  EXPECT_EQ(step(), 1u);
  EXPECT_EQ(Told<Commit>("b1").size(), 0u);
}

TEST_F(CoordinatorRecoveryTest, WhoStatesAnotherFoldSetHasTheLastWord) {
  options_.microbatches = 2;
  StartTraining({1, 1});
  FoldAll();
  const protocol::Reduce reduce = Asked("b1", 1);
  Listen();
  Say("b1", ReduceRefused{
                Generation(0), Step(0), GroupIndex(1), reduce.k, {StageIndex(1), {Microbatch(0)}}});
  EXPECT_TRUE(Happened("ReduceRefused"));
  EXPECT_EQ(Told<Resend>("a1").size(), 1u);  // microbatch 1 is computed again
  CompleteStep();
}

TEST_F(CoordinatorRecoveryTest, ASumThatStagesShareIsMadeAnewByAllOfThemWhenOneRefuses) {
  options_.tied_head = true;
  StartTraining({1, 1});
  FoldAll();
  const Attempt shared = Asked("b1", 2).k, own = Asked("b1", 1).k;
  Listen();
  Say("a1", ReduceRefused{
                Generation(0), Step(0), GroupIndex(2), shared, {StageIndex(0), {Microbatch(0)}}});
  EXPECT_EQ(WhoWasTold<Thaw>(), std::set<std::string>{"a1"});
  ASSERT_EQ(Issued().size(), 1u);
  Fold(1, 0);
  EXPECT_GT(Asked("a1", 2).k, shared);
  EXPECT_EQ(Asked("b1", 2).k, Asked("a1", 2).k);
  EXPECT_EQ(Asked("b1", 1).k, own);  // what it sums alone stays as it is
  Reduce();
  EXPECT_EQ(step(), 1u);
}

TEST_F(CoordinatorRecoveryTest, AFoldSetThatOverlapsAnothersIsVoidedAndReplayed) {
  options_.microbatches = 2;
  StartTraining({1, 2});
  FoldAll();
  const std::string one = Owner(0, 1);
  const std::string two = one == "b1" ? "b2" : "b1";
  ASSERT_EQ(Owner(1, 1), two);
  Listen();
  Say(two, ReduceRefused{Generation(0),
                         Step(0),
                         GroupIndex(1),
                         Asked(two, 1).k,
                         {StageIndex(1), {Microbatch(0), Microbatch(1)}}});
  ASSERT_EQ(Told<Void>(two).size(), 1u);
  EXPECT_TRUE(WhoWasTold<Resend>().empty());  // first it has to report that it has cleared its sums
  AnswerVoids(two);
  EXPECT_FALSE(WhoWasTold<Resend>().empty());
  CompleteStep();
}

TEST_F(CoordinatorRecoveryTest, WhoDoesNotAnswerAVoidIsEvicted) {
  options_.microbatches = 2;
  StartTraining({1, 2});
  FoldAll();
  const std::string two = Owner(1, 1);
  Say(two, ReduceRefused{Generation(0),
                         Step(0),
                         GroupIndex(1),
                         Asked(two, 1).k,
                         {StageIndex(1), {Microbatch(0), Microbatch(1)}}});
  Pass(options_.patience.ForRevoke(3));
  EXPECT_TRUE(Told<Shutdown>(two).at(0).rejoin);
  CompleteStep();
}

TEST_F(CoordinatorRecoveryTest, ASumThatTakesTooLongIsAskedForAgainAndThenWithoutWhoKeepsIt) {
  StartTraining({1, 2});
  FoldAll();
  Reduce("a1", 0);
  Reduce("b1", 1);
  const Attempt k = Told<protocol::Reduce>("b2").back().k;
  Listen();
  Pass(options_.patience.first_reduce);
  EXPECT_GT(Told<protocol::Reduce>("b2").at(0).k, k);
  EXPECT_TRUE(WhoWasTold<Shutdown>().empty());
  Reduce("b1", 1);
  Pass(options_.patience.first_reduce - seconds(1));
  EXPECT_TRUE(WhoWasTold<Shutdown>().empty());
  Pass(seconds(1));
  EXPECT_EQ(WhoWasTold<Shutdown>(), std::set<std::string>{"b2"});
  CompleteStep();
}

class LateSumTest : public CoordinatorTest {
 protected:
  /// A stage of that many replicas, whose sum was asked for.
  void StartSum(std::uint64_t replicas) {
    options_.microbatches = replicas;
    StartTraining({replicas});
    FoldAll();
    Listen();
  }
  void Wait(const std::string& name, std::uint64_t chunks, const std::vector<WorkerId>& from) {
    const auto& reduce = Asked(name, 0);
    Say(name, Awaiting{reduce.generation, reduce.step, reduce.group, reduce.k, chunks, from});
  }
};

TEST_F(LateSumTest, ASumThatMovesIsNotLateHoweverLongItTakes) {
  StartSum(2);
  const Attempt k = Asked("a1", 0).k;
  for (std::uint64_t chunks = 1; chunks < 400; ++chunks) {
    Wait("a1", chunks, {WorkerId("a2")});
    Pass(seconds(1));
  }
  EXPECT_EQ(Asked("a1", 0).k, k);
  EXPECT_FALSE(Happened("WorkerLost"));
}

TEST_F(LateSumTest, TheOneForWhichMostWaitGoes) {
  StartSum(5);
  for (int asked = 0; asked < 2; ++asked) {
    for (const std::string name : {"a1", "a2", "a4", "a5"}) Wait(name, 3, {WorkerId("a3")});
    Pass(options_.patience.first_reduce);
  }
  EXPECT_EQ(WhoWasTold<Shutdown>(), std::set<std::string>{"a3"});
  CompleteStep();
}

TEST_F(LateSumTest, TheOneThatWaitsForAllGoesIfNoOtherDoes) {
  StartSum(4);
  for (int asked = 0; asked < 2; ++asked) {
    Wait("a2", 0, {WorkerId("a1"), WorkerId("a3"), WorkerId("a4")});
    Pass(options_.patience.first_reduce);
  }
  EXPECT_EQ(WhoWasTold<Shutdown>(), std::set<std::string>{"a2"});
}

TEST_F(LateSumTest, InAGridTheOneAtTheEndOfTheChainOfWaitsGoes) {
  options_.flat_reduce_max = 3;
  StartSum(4);
  EXPECT_EQ(Asked("a1", 0).rows, 2u);
  // The rows are a1 a2 and a3 a4. a1 has not begun, so a2 waits for its contribution, and the other
  // row for the partial sums of both.
  for (int asked = 0; asked < 2; ++asked) {
    Wait("a2", 3, {WorkerId("a1")});
    Wait("a3", 3, {WorkerId("a1")});
    Wait("a4", 3, {WorkerId("a2")});
    Pass(options_.patience.first_reduce);
  }
  EXPECT_EQ(WhoWasTold<Shutdown>(), std::set<std::string>{"a1"});
  CompleteStep();
}

TEST_F(LateSumTest, ABrokenPairThatExchangesNothingKeepsNoSumFromItsEnd) {
  options_.flat_reduce_max = 3;
  StartSum(4);
  const Attempt k = Asked("a1", 0).k;
  const std::vector<WorkerId> seats = Asked("a1", 0).participants;
  // Two rows of two: the first and the last have nothing in common.
  const WorkerId& corner = seats[0];
  Say(corner.value, Unheard{{seats[3]}});
  Pass(kDetourTime);
  EXPECT_EQ(Asked("a1", 0).k, k);
  Say(corner.value, Unheard{{seats[2], seats[3]}});
  Pass(kDetourTime);
  EXPECT_GT(Asked("a1", 0).k, k);
}

TEST_F(LateSumTest, OfTwoRegionsOnlyHeadsAndOwnersHaveSomethingInCommon) {
  regions_ = {{"a1", "eu"}, {"a2", "eu"}, {"a3", "us"}, {"a4", "us"}};
  StartSum(4);
  const protocol::Reduce asked = Asked("a1", 0);
  EXPECT_EQ(asked.rows, 4u);
  EXPECT_EQ(asked.regions, (std::vector<std::uint64_t>{0, 0, 1, 1}));
  // a3 is the head of the piece of a1, and the other way round.
  Say("a1", Unheard{{WorkerId("a4")}});
  Pass(kDetourTime);
  EXPECT_EQ(Asked("a1", 0).k, asked.k);
  Say("a1", Unheard{{WorkerId("a3"), WorkerId("a4")}});
  Pass(kDetourTime);
  EXPECT_GT(Asked("a1", 0).k, asked.k);
  CompleteStep();
}

TEST_F(LateSumTest, TheOneWhoseSumDiffersFromTheOthersGoes) {
  StartSum(3);
  Reduce("a1", 0, {1, 1});
  Reduce("a2", 0, {2, 2});
  EXPECT_TRUE(WhoWasTold<Shutdown>().empty()) << "it is unknown who is right";
  Reduce("a3", 0, {1, 1});
  EXPECT_EQ(WhoWasTold<Shutdown>(), std::set<std::string>{"a2"});
  CompleteStep();
}

TEST_F(LateSumTest, TwoThatDifferOnceMakeTheSumAgain) {
  StartSum(2);
  Reduce("a1", 0, {1, 1});
  Reduce("a2", 0, {2, 2});
  EXPECT_TRUE(Happened("ReduceDiffers"));
  EXPECT_EQ(step(), 0u);
  Reduce("a1", 0, {3, 3});
  Reduce("a2", 0, {3, 3});
  EXPECT_TRUE(WhoWasTold<Shutdown>().empty());
  EXPECT_EQ(step(), 1u);
}

TEST_F(LateSumTest, OfTwoThatDifferTwiceOneGoesOn) {
  StartSum(2);
  for (int asked = 0; asked < 2; ++asked) {
    Reduce("a1", 0, {1, 1});
    Reduce("a2", 0, {2, 2});
  }
  EXPECT_EQ(WhoWasTold<Shutdown>().size(), 1u);
  CompleteStep();
  EXPECT_EQ(step(), 1u);
}

TEST_F(LateSumTest, WaitsDoNotGrowFromOneDepartureToTheNext) {
  StartSum(6);
  Timepoint last = now_;
  for (int evicted = 0; evicted < 4; ++evicted) {
    Listen();
    while (WhoWasTold<Shutdown>().empty()) {
      FoldAll();
      Pass(seconds(1));
      ASSERT_LT(now_ - last, 3 * options_.patience.first_reduce);
    }
    EXPECT_LE(now_ - last, 2 * options_.patience.first_reduce + seconds(2));
    last = now_;
  }
}

}  // namespace
}  // namespace swarm::protocol
