// A step without departures: issue, reduce, commit, digests of the state.
#include <limits>

#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

using CoordinatorStepTest = CoordinatorTest;

TEST_F(CoordinatorStepTest, EachMicrobatchIsIssuedOnceAndFoldedByEachStage) {
  StartTraining({1, 1});
  const auto frames = Issued();
  ASSERT_EQ(frames.size(), 2u);
  std::set<Attempt> attempts;
  for (const protocol::Forward& frame : frames) {
    EXPECT_EQ(frame.version, Version(0));
    for (const Hop& hop : frame.hops) {
      EXPECT_TRUE(hop.fold);
      attempts.insert(hop.attempt);
    }
  }
  EXPECT_EQ(attempts.size(), 4u);  // never one name for two
}

TEST_F(CoordinatorStepTest, WhatIsInFlightIsBoundedAndFoldsMakeRoom) {
  options_.microbatches = 50;
  StartTraining({1, 1});
  const std::size_t first = Issued().size();
  EXPECT_LT(first, 50u);
  Fold(0, 1);
  Fold(0, 0);
  EXPECT_GT(Issued().size(), first);
  CompleteStep();
}

TEST_F(CoordinatorStepTest, TheWorkersOfAPodSumAmongThemselvesFirst) {
  options_.replicas = {4};
  Create();
  for (const char* name : {"a1", "a2", "a3", "a4"}) {
    Hello hello = HelloOf(name);
    hello.pod = name < std::string("a3") ? "p" : "q";
    Say(name, hello);
    Load(name);
  }
  FoldAll();
  const protocol::Reduce& reduce = Asked("a1", 0);
  EXPECT_EQ(reduce.rows, 2u);
  EXPECT_EQ(reduce.participants, (std::vector{WorkerId("a1"), WorkerId("a3"),  //
                                              WorkerId("a2"), WorkerId("a4")}))
      << "seats 0 and 2 are one row";
  CompleteStep();
}

TEST_F(CoordinatorStepTest, AReduceNamesWhoHasFoldedWhat) {
  options_.microbatches = 4;
  StartTraining({2, 1});
  FoldAll();
  std::set<Microbatch> claimed;
  for (const std::string name : {"a1", "a2"}) {
    const protocol::Reduce& reduce = Asked(name, 0);
    EXPECT_EQ(reduce.participants, (std::vector{WorkerId("a1"), WorkerId("a2")}));
    EXPECT_EQ(reduce.k, Asked("a1", 0).k);
    EXPECT_EQ(reduce.claims.stage, StageIndex(0));
    for (const Microbatch m : reduce.claims.microbatches) {
      EXPECT_TRUE(claimed.insert(m).second) << "two claim microbatch " << m.value;
      EXPECT_EQ(name, Owner(m.value, 0));
    }
  }
  EXPECT_EQ(claimed.size(), 4u);
}

TEST_F(CoordinatorStepTest, AStageIsReducedWhenItIsCompleteAndNotBefore) {
  StartTraining({1, 1});
  Fold(0, 1);
  Fold(1, 1);
  EXPECT_EQ(WhoWasTold<protocol::Reduce>(), std::set<std::string>{"b1"});
  Fold(0, 0);
  Fold(1, 0);
  EXPECT_EQ(WhoWasTold<protocol::Reduce>(), (std::set<std::string>{"a1", "b1"}));
}

TEST_F(CoordinatorStepTest, ATiedHeadIsSummedAmongFirstAndLastStage) {
  options_.tied_head = true;
  StartTraining({1, 1, 2});
  FoldAll();
  EXPECT_EQ(Asked("a1", 3).participants,
            (std::vector{WorkerId("a1"), WorkerId("c1"), WorkerId("c2")}));
  EXPECT_THROW((void)Asked("b1", 3), std::out_of_range);
  Reduce();
  EXPECT_EQ(step(), 1u);
}

TEST_F(CoordinatorStepTest, ACommitWaitsForEveryParticipantOfEveryGroup) {
  StartTraining({2, 1});
  FoldAll();
  Reduce("a1", 0);
  Reduce("b1", 1);
  EXPECT_EQ(step(), 0u);
  EXPECT_TRUE(WhoWasTold<Commit>().empty());
  Reduce("a2", 0, {1, 1});
  EXPECT_EQ(step(), 1u);
  EXPECT_EQ(WhoWasTold<Commit>(), (std::set<std::string>{"a1", "a2", "b1"}));
  const CommitRecord record = Told<Commit>("a1").at(0).record;
  EXPECT_EQ(record.groups.at(0).k, Told<protocol::Reduce>("a1").at(0).k);
  EXPECT_EQ(record.groups.at(0).digest, (Digest{1, 1}));
  EXPECT_EQ(record.loss, 2);
  EXPECT_EQ(record.learning_rate, 0.1);
  EXPECT_EQ(All<order::StepDone>().at(0).record, record);
}

TEST_F(CoordinatorStepTest, AStepSaysWhatItTookAtEachStage) {
  StartTraining({2, 1});
  Beat("b1", {.busy_seconds = 5});  // before the training began
  FoldAll();                        // each report says one second
  Beat("b1", {.busy_seconds = 8});
  Reduce("b1", 1);
  Reduce("a1", 0);
  now_ += seconds(3);
  Reduce("a2", 0);
  const auto times = All<order::StepDone>().at(0).times;
  EXPECT_EQ(times, (std::vector<order::StageTime>{
                       {.workers = 2, .task_seconds = 2, .busy_seconds = 0, .reduce_seconds = 3},
                       {.workers = 1, .task_seconds = 2, .busy_seconds = 3, .reduce_seconds = 0}}));
}

TEST_F(CoordinatorStepTest, WorkOfTheDeviceIsCountedWithOneStepOnly) {
  StartTraining({1, 1});
  Beat("b1", {.busy_seconds = 5});
  Beat("b1", {.busy_seconds = 8});
  CompleteStep();
  Beat("b1", {.busy_seconds = 9});
  CompleteStep();
  EXPECT_EQ(All<order::StepDone>().at(0).times.at(1).busy_seconds, 3);
  EXPECT_EQ(All<order::StepDone>().at(1).times.at(1).busy_seconds, 1);
}

TEST_F(CoordinatorStepTest, AReportOfAnotherReduceCountsForNothing) {
  StartTraining({1, 1});
  FoldAll();
  const protocol::Reduce reduce = Asked("a1", 0);
  Reduce("b1", 1);
  Say("a1", Reduced{reduce.generation, reduce.step, reduce.group, {Term(1), 999}, {1, 1}, {}});
  Say("b1", Reduced{reduce.generation, reduce.step, reduce.group, reduce.k, {1, 1}, {}});
  EXPECT_EQ(step(), 0u);
}

TEST_F(CoordinatorStepTest, GradientsThatAreNotFiniteAreSkippedByAll) {
  StartTraining({2, 1});
  FoldAll();
  Reduce("a1", 0, {1, 1}, 1);
  Reduce("a2", 0, {1, 1}, std::numeric_limits<double>::infinity());
  Reduce("b1", 1);
  EXPECT_TRUE(Told<Commit>("a1").at(0).record.skip);
  EXPECT_TRUE(Happened("StepSkipped"));
  EXPECT_EQ(step(), 1u);
}

TEST_F(CoordinatorStepTest, TheNextStepBeginsWhenThisOneIsDecidedAndReadsItsWeights) {
  StartTraining({1, 1});
  FoldAll();
  Listen();
  Reduce("a1", 0);
  EXPECT_TRUE(Issued().empty());
  Reduce("b1", 1);
  ASSERT_EQ(Issued().size(), 2u);
  EXPECT_EQ(Issued()[0].key.step, Step(1));
  EXPECT_EQ(Issued()[0].version, Version(1));
}

TEST_F(CoordinatorStepTest, DelayedStepsReadTheWeightsBeforeAndRunOneAhead) {
  options_.delayed = true;
  StartTraining({1, 1});
  FoldAll();
  std::map<Step, Version> versions;
  for (const protocol::Forward& frame : Issued()) versions[frame.key.step] = frame.version;
  EXPECT_EQ(versions, (std::map<Step, Version>{{Step(0), Version(0)}, {Step(1), Version(0)}}));
  Listen();
  Reduce();
  FoldAll();
  for (const protocol::Forward& frame : Issued()) versions[frame.key.step] = frame.version;
  EXPECT_EQ(versions[Step(2)], Version(1));
  EXPECT_FALSE(versions.contains(Step(3)));
}

TEST_F(CoordinatorStepTest, SumsAreKeptForWhoHasNotAppliedThemYet) {
  options_.delayed = true;
  StartTraining({2, 1});
  FoldAll();
  Reduce();
  Apply("a1", 0, {1, 7});
  Apply("b1", 0, {1, 7});
  FoldAll();
  Listen();
  Reduce();
  EXPECT_EQ(Told<Commit>("a1").at(0).keep_from, Step(0));  // a2 has not
  Apply();
  FoldAll();
  Listen();
  Reduce();
  EXPECT_EQ(Told<Commit>("a1").at(0).keep_from, Step(2));
}

// ---- digests of the state ----

TEST_F(CoordinatorStepTest, AMinorityWithOtherWeightsComesBackEmptyWhoeverSpeaksFirst) {
  for (const std::string odd : {"a1", "a2", "a3"}) {
    StartTraining({3, 1});
    FoldAll();
    Reduce();
    Listen();
    for (const char* name : {"a1", "a2", "a3"}) {
      Apply(name, 0, name == odd ? Digest{9, 9} : Digest{1, 7});
    }
    EXPECT_FALSE(Finished()) << odd;
    ASSERT_EQ(WhoWasTold<Shutdown>(), std::set<std::string>{odd});
    EXPECT_TRUE(Told<Shutdown>(odd).at(0).rejoin);
    EXPECT_EQ(state(), "Training");
  }
}

TEST_F(CoordinatorStepTest, AStepIsCommittedWhenAllHaveReportedTheStateThatTheyComputedItWith) {
  StartTraining({2, 1});
  CompleteStep();
  FoldAll();
  Reduce();
  ASSERT_EQ(step(), 2u);
  Apply("a1", 1, {2, 7});
  Apply("b1", 1, {2, 7});
  FoldAll();
  Reduce();
  EXPECT_EQ(step(), 2u);
  Apply("a2", 1, {2, 7});
  EXPECT_EQ(step(), 3u);
}

TEST_F(CoordinatorStepTest, WhatWasComputedWithWrongWeightsIsVoidAndComputedAgain) {
  StartTraining({3, 1});
  CompleteStep();
  FoldAll();
  Reduce();
  for (const char* name : {"a1", "a2", "b1"}) Apply(name, 1, {2, 7});
  FoldAll();
  Listen();
  Apply("a3", 1, {9, 9});
  EXPECT_EQ(WhoWasTold<Shutdown>(), std::set<std::string>{"a3"});
  EXPECT_TRUE(Happened("StepRepeated"));
  for (const char* name : {"a1", "a2", "b1"}) AnswerVoids(name);
  CompleteStep();
  EXPECT_EQ(step(), 3u);
}

TEST_F(CoordinatorStepTest, WhereItIsUnknownWhoIsRightTheJobGoesBackToACheckpointOnce) {
  StartTraining({2, 1});
  CompleteStep();
  FoldAll();
  Reduce();
  Listen();
  Apply("a1", 1, {1, 1});
  Apply("a2", 1, {2, 2});
  EXPECT_EQ(WhoWasTold<Shutdown>(), (std::set<std::string>{"a1", "a2"}));
  EXPECT_FALSE(Finished());
  for (const std::string name : {"a1", "a2"}) Come(name, 2);
  BeginGeneration(1, 1);
  for (const std::string name : {"a1", "b1"}) Load(name);
  EXPECT_EQ(state(), "Training");
}

TEST_F(CoordinatorStepTest, ATieIsTheTroubleOfOneWorkerHoweverManyGo) {
  StartTraining({4, 1});
  FoldAll();
  Reduce();
  Listen();
  for (const char* name : {"a1", "a2"}) Apply(name, 0, {1, 1});
  for (const char* name : {"a3", "a4"}) Apply(name, 0, {2, 2});
  EXPECT_EQ(WhoWasTold<Shutdown>(), (std::set<std::string>{"a1", "a2", "a3", "a4"}));
  EXPECT_FALSE(Finished());
}

TEST_F(CoordinatorStepTest, WhoComesBackIsNotJudgedByWhatItsEarlierIncarnationReported) {
  StartTraining({3, 1});
  FoldAll();
  Reduce();
  Apply("a1", 0, {9, 9});
  Lose("a1");
  Come("a1", 2);
  Listen();
  Apply("a2", 0, {1, 7});
  Apply("a3", 0, {2, 7});
  EXPECT_EQ(WhoWasTold<Shutdown>(), (std::set<std::string>{"a2", "a3"}));
  EXPECT_FALSE(Finished());
}

TEST_F(CoordinatorStepTest, OneReportOfSeveralReplicasIsNotYetTheTruth) {
  options_.delayed = true;
  StartTraining({4, 1});
  Lose("a4");
  for (int i = 0; i < 2; ++i) {
    FoldAll();
    Reduce();
  }
  ASSERT_EQ(step(), 2u);
  Hello hello = HelloOf("a4", 2);
  hello.offers = true;
  hello.offer = {StageIndex(0), Version(0), {7, 7}};
  Say("a4", hello);
  Load("a4", {7, 7});
  Listen();
  Apply("a1", 0, {9, 9});  // it is wrong, and the first to speak
  Apply("a4", 0, {1, 7});  // it is not ready yet
  EXPECT_TRUE(WhoWasTold<Shutdown>().empty()) << "two of three replicas have yet to report";
  Apply("a2", 0, {1, 7});
  Apply("a3", 0, {1, 7});
  EXPECT_EQ(WhoWasTold<Shutdown>(), std::set<std::string>{"a1"});
}

TEST_F(CoordinatorStepTest, APartWhoseHoldersDifferIsLostThoughOthersHaveTakenItSince) {
  options_.delayed = true;
  options_.part_sizes = {{5}, {}};
  StartTraining({3, 1});
  const PartName part{GroupIndex(0), 0};
  const auto sum = [&] {
    FoldAll();
    PartHolders holders;
    for (const std::string name : {"a1", "a2", "a3"}) {
      const auto asked = Told<protocol::Reduce>(name);
      if (asked.empty()) continue;
      const protocol::Reduce& reduce = asked.back();
      holders = reduce.holders.at(0);
      Reduced reduced{reduce.generation, reduce.step, reduce.group, reduce.k, {}, {}};
      if (holders.Has(WorkerId(name))) {
        reduced.norms = {{"tensor", 1}};
        reduced.parts = {{part, {1, 1}}};
      }
      Say(name, reduced);
    }
    Listen();
    Reduce("b1", 1);
    return holders;
  };
  const auto apply = [&](const WorkerId& id, std::uint64_t digest) {
    Say(id.value,
        Committed{coordinator().generation(), Step(0), {1, 7}, {}, {{part, {digest, 7}}}});
  };
  const PartHolders before = sum();
  ASSERT_EQ(step(), 1u);
  apply(before.first, 1);
  Lose(before.first.value);
  const PartHolders since = sum();  // the other one, and a third to which it has given the moments
  ASSERT_EQ(step(), 2u);
  ASSERT_TRUE(since.Has(before.second));
  ASSERT_FALSE(since.Has(before.first) || since.second.empty());
  EXPECT_EQ(state(), "Training");
  apply(before.second, 2);
  EXPECT_NE(state(), "Training") << "neither can be shown to be right";
}

TEST_F(CoordinatorStepTest, StagesAreNotComparedWithEachOther) {
  StartTraining({1, 1});
  FoldAll();
  Reduce();
  Apply("a1", 0, {1, 1});
  Apply("b1", 0, {2, 2});
  EXPECT_FALSE(Finished());
}

}  // namespace
}  // namespace swarm::protocol
