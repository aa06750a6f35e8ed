// Workers that come while the job trains: they copy a stage's state, catch up, and serve.
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

class CoordinatorJoinTest : public CoordinatorTest {
 protected:
  static constexpr Digest kState{5, 5};

  /// Every worker that was asked has pinned its state.
  void Pin(const std::string& name, const Digest& state = kState) {
    Say(name, StatePinned{Generation(0), Told<PinState>(name).back().version, state, {}});
  }
  void StartAndCome() {
    StartTraining({1, 2});
    CompleteStep();
    MakeSlow();
    Listen();
    Come("new");
  }
  /// Measurements show that the stage lacks workers.
  void MakeSlow(const std::vector<std::string>& replicas = {"b1", "b2"}, std::uint64_t stage = 1) {
    for (const std::string& name : replicas) {
      for (int i = 0; i < 20; ++i) {
        Say(name, Progress{{{.key = {Generation(0), Step(step()), {}, StageIndex(stage), {}},
                             .event = TaskReport::Event::kForwarded,
                             .seconds = 100}}});
      }
    }
    CompleteStep();
  }
  void Copy(const std::string& name) { Load(name, kState); }
  /// A step that the joiner, which still copies, does not apply.
  void CompleteStepWithoutTheJoiner() {
    FoldAll();
    Reduce();
    for (const char* name : {"a1", "b1", "b2"}) Apply(name, step() - 1, {step(), 7});
  }
};

TEST_F(CoordinatorJoinTest, ANewcomerGoesToTheStageThatIsSlowestAndCopiesItFromItsReplicas) {
  StartAndCome();
  EXPECT_EQ(WhoWasTold<PinState>(), (std::set<std::string>{"b1", "b2"}));
  EXPECT_EQ(Told<PinState>("b1").at(0).version, Version(2));
  Pin("b1");
  EXPECT_TRUE(Told<Welcome>("new").empty());
  Pin("b2");
  const Welcome welcome = Told<Welcome>("new").at(0);
  EXPECT_EQ(welcome.stage, StageIndex(1));
  EXPECT_EQ(welcome.version, Version(2));
  EXPECT_EQ(welcome.state, kState);
  EXPECT_EQ(welcome.donors.size(), 2u);
  EXPECT_TRUE(welcome.checkpoint_uri.empty());
}

TEST_F(CoordinatorJoinTest, AWorkerOfAPodGoesToTheStageOfTheOthers) {
  for (const char* name : {"new", "b2"}) pods_[name] = "p";
  StartTraining({2, 2});
  Listen();
  Come("new");
  EXPECT_EQ(WhoWasTold<PinState>(), (std::set<std::string>{"b1", "b2"}));
}

TEST_F(CoordinatorJoinTest, AWorkerOfAPodThatIsAloneAtItsStageGoesToAnother) {
  for (const char* name : {"new", "b1", "b2"}) pods_[name] = "p";
  StartTraining({2, 2});
  Listen();
  Come("new");
  EXPECT_EQ(WhoWasTold<PinState>(), (std::set<std::string>{"a1", "a2"}));
}

TEST_F(CoordinatorJoinTest, AWorkerOfAPodGoesFirstWhereAnotherPodIsAlone) {
  for (const char* name : {"new", "a2"}) pods_[name] = "p";
  pods_["b1"] = "q";
  StartTraining({2, 1});
  CompleteStep();
  MakeSlow({"a1", "a2"}, 0);
  Listen();
  Come("new");
  EXPECT_EQ(WhoWasTold<PinState>(), std::set<std::string>{"b1"});
}

TEST_F(CoordinatorJoinTest, AWorkerOfAPodGoesWhereTheJobGainsMuch) {
  for (const char* name : {"new", "b1", "b2"}) pods_[name] = "p";
  StartTraining({1, 3});
  Listen();
  Come("new");
  EXPECT_EQ(WhoWasTold<PinState>(), (std::set<std::string>{"a1"}));
}

TEST_F(CoordinatorJoinTest, WhoIsCopyingIsNotAMemberAndHoldsNobodyUp) {
  StartAndCome();
  Pin("b1");
  Pin("b2");
  Listen();
  CompleteStep();
  EXPECT_TRUE(WhoWasTold<Roster>().empty());
  EXPECT_TRUE(Told<protocol::Reduce>("new").empty());
  for (const protocol::Forward& frame : Issued()) {
    for (const Hop& hop : frame.hops) EXPECT_NE(hop.worker, WorkerId("new"));
  }
}

TEST_F(CoordinatorJoinTest, WhatIsDecidedMeanwhileIsToldToWhoIsCopyingWithoutAGap) {
  StartAndCome();
  CompleteStep();  // before it is welcomed
  Pin("b1");
  Pin("b2");
  CompleteStep();  // and after
  std::vector<std::uint64_t> steps;
  for (const Commit& commit : Told<Commit>("new")) steps.push_back(commit.record.step.value);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{2, 3}));
  // Replicas keep their sums for the joiner, which can fetch them.
  EXPECT_LE(Told<Commit>("b1").back().keep_from, Step(2));
  EXPECT_EQ(Told<Commit>("a1").back().keep_from, Step(3));
}

TEST_F(CoordinatorJoinTest, WhoHasCopiedAndCaughtUpServesAndThePinnedStateIsFreed) {
  StartAndCome();
  Pin("b1");
  Pin("b2");
  Copy("new");
  EXPECT_EQ(WhoWasTold<UnpinState>(), (std::set<std::string>{"b1", "b2"}));
  EXPECT_TRUE(Happened("WorkerJoined"));
  EXPECT_EQ(Told<Roster>("new").back().members.size(), 4u);
  EXPECT_EQ(Told<RosterChange>("a1").back().came.at(0).id, WorkerId("new"));
  Listen();
  for (int i = 0; i < 6; ++i) CompleteStep();
  EXPECT_FALSE(Told<protocol::Reduce>("new").empty());
  bool used = false;
  for (const protocol::Forward& frame : Issued()) used |= frame.hops[1].worker == WorkerId("new");
  EXPECT_TRUE(used);
}

TEST_F(CoordinatorJoinTest, ReplicasTakeTurnsAsDonors) {
  options_.donors_max = 1;
  StartTraining({3});
  std::set<std::string> donors;
  for (int i = 0; i < 3; ++i) {
    CompleteStep();
    Listen();
    const std::string name = "new" + std::to_string(i);
    Come(name);
    EXPECT_EQ(WhoWasTold<PinState>().size(), 1u);
    donors.merge(WhoWasTold<PinState>());
    Lose(name);
  }
  EXPECT_EQ(donors, (std::set<std::string>{"a1", "a2", "a3"}));
}

TEST_F(CoordinatorJoinTest, ADonorThatNobodyCanDialDialsTheNewcomer) {
  dialled_ = {"new"};
  StartAndCome();
  Pin("b1");
  EXPECT_TRUE(WhoWasTold<Meet>().empty());
  Pin("b2");
  EXPECT_EQ(WhoWasTold<Meet>(), (std::set<std::string>{"b1", "b2"}));
  const Member joiner = Told<Meet>("b1").at(0).joiner;
  EXPECT_EQ(joiner.id, WorkerId("new"));
  EXPECT_EQ(joiner.addresses.at(0).dial, "new:7000");
}

TEST_F(CoordinatorJoinTest, DonorsAreThoseThatANewcomerCanDialAsFarAsThereAreAny) {
  dialled_ = {"b1", "new"};
  StartAndCome();
  EXPECT_EQ(WhoWasTold<PinState>(), std::set<std::string>{"b1"});
  Pin("b1");
  EXPECT_EQ(Told<Welcome>("new").at(0).donors.size(), 1u);
  EXPECT_TRUE(WhoWasTold<Meet>().empty());
}

TEST_F(CoordinatorJoinTest, WhoIsFarBehindCatchesUpBeforeItIsAMember) {
  StartAndCome();
  Pin("b1");
  Pin("b2");
  for (int i = 0; i < 20; ++i) CompleteStepWithoutTheJoiner();
  Listen();
  Copy("new");
  EXPECT_TRUE(WhoWasTold<RosterChange>().empty());
  for (std::uint64_t t = 2; t < 20; ++t) Apply("new", t, {t + 1, 7});
  EXPECT_FALSE(Happened("WorkerJoined"));  // two commits behind it takes part in sums
  EXPECT_EQ(Told<Roster>("new").size(), 1u);
  Apply("new", 20, {21, 7});
  EXPECT_TRUE(Happened("WorkerJoined"));
  Apply("new", 21, {22, 7});
  CompleteStep();
}

TEST_F(CoordinatorJoinTest, ASumThatANewcomerHoldsUpCostsTheNewcomerAndNotTheStage) {
  StartTraining({1, 1});
  CompleteStep();
  MakeSlow();
  Come("new");
  Pin("b1");
  for (int i = 0; i < 2; ++i) {
    FoldAll();
    Reduce();
    for (const char* name : {"a1", "b1"}) Apply(name, step() - 1, {step(), 7});
  }
  Copy("new");
  ASSERT_FALSE(Told<Roster>("new").empty());
  FoldAll();
  Reduce("a1", 0);
  Listen();
  Pass(options_.patience.first_reduce);
  EXPECT_EQ(WhoWasTold<protocol::Reduce>(), (std::set<std::string>{"b1", "new"}));
  Pass(2 * options_.patience.first_reduce);
  EXPECT_EQ(WhoWasTold<Shutdown>(), std::set<std::string>{"new"});
  EXPECT_FALSE(Happened("StageLost"));
  CompleteStep();
}

TEST_F(CoordinatorJoinTest, WhoHasCopiedSomethingElseComesBackEmpty) {
  StartAndCome();
  Pin("b1");
  Pin("b2");
  Load("new", {6, 6});
  EXPECT_TRUE(Told<Shutdown>("new").at(0).rejoin);
  EXPECT_EQ(WhoWasTold<UnpinState>(), (std::set<std::string>{"b1", "b2"}));
  EXPECT_FALSE(Finished());
}

TEST_F(CoordinatorJoinTest, WhoHasOtherWeightsThanThoseItJoinsComesBackEmptyEvenIfItSpeaksFirst) {
  StartAndCome();
  Pin("b1");
  Pin("b2");
  Copy("new");
  FoldAll();
  Reduce();
  Listen();
  Apply("new", 2, {9, 9});
  Apply("b1", 2, {3, 7});
  Apply("b2", 2, {3, 7});
  EXPECT_FALSE(Finished());
  EXPECT_EQ(WhoWasTold<Shutdown>(), std::set<std::string>{"new"});
}

TEST_F(CoordinatorJoinTest, WhoComesSoonAfterAnotherSharesWhatIsPinned) {
  StartAndCome();
  Pin("b1");
  Pin("b2");
  Listen();
  now_ += seconds(1);
  Come("newer");
  if (Told<Welcome>("newer").empty()) GTEST_SKIP() << "it was given another stage";
  EXPECT_TRUE(WhoWasTold<PinState>().empty());
  EXPECT_EQ(Told<Welcome>("newer").size(), 1u);
  EXPECT_TRUE(Told<Welcome>("new").empty());  // that has been told
  Copy("new");
  EXPECT_TRUE(WhoWasTold<UnpinState>().empty());
  Copy("newer");
  EXPECT_EQ(WhoWasTold<UnpinState>(), (std::set<std::string>{"b1", "b2"}));
}

TEST_F(CoordinatorJoinTest, ADonorThatCannotPinIsDoneWithout) {
  StartAndCome();
  Pin("b1");
  Say("b2", StatePinned{Generation(0), Version(2), {}, "this worker holds version 3 already"});
  EXPECT_EQ(Told<Welcome>("new").at(0).donors.size(), 1u);
}

TEST_F(CoordinatorJoinTest, TheJoinBeginsAgainWhereDonorsPinDifferentStatesAndNoneHasAMajority) {
  StartAndCome();
  Pin("b1", {6, 6});
  Pin("b2");
  EXPECT_TRUE(Told<Welcome>("new").empty());
  EXPECT_EQ(WhoWasTold<UnpinState>(), (std::set<std::string>{"b1", "b2"}));
  Listen();
  Pass(milliseconds(100));
  EXPECT_EQ(WhoWasTold<PinState>(), (std::set<std::string>{"b1", "b2"}));
}

TEST_F(CoordinatorJoinTest, ADonorThatPinsAnotherStateThanMostIsDoneWithoutEvenIfItAnswersFirst) {
  StartTraining({3});
  CompleteStep();
  Listen();
  Come("new");
  Pin("a1", {6, 6});
  Pin("a2");
  Pin("a3");
  const Welcome welcome = Told<Welcome>("new").at(0);
  EXPECT_EQ(welcome.donors.size(), 2u);
  EXPECT_EQ(welcome.state, kState);
  EXPECT_EQ(WhoWasTold<UnpinState>(), std::set<std::string>{"a1"});
}

TEST_F(CoordinatorJoinTest, ItCopiesAStateWhenAllReplicasHaveReportedItAndNothingOfOneThatIsWrong) {
  StartTraining({3});
  CompleteStep();
  FoldAll();
  Reduce();
  for (const char* name : {"a2", "a3"}) Apply(name, 1, {2, 7});
  Listen();
  Come("new");
  Pin("a1", {9, 9});
  Pin("a2");
  Pin("a3");
  Pass(milliseconds(100));
  EXPECT_TRUE(Told<Welcome>("new").empty());
  Apply("a1", 1, {9, 9});
  Pass(milliseconds(100));
  const Welcome welcome = Told<Welcome>("new").at(0);
  EXPECT_EQ(welcome.donors.size(), 2u);
  EXPECT_EQ(welcome.state, kState);
}

TEST_F(CoordinatorJoinTest, WhereNoDonorCouldPinTheJoinBeginsAgainWithALaterVersion) {
  StartAndCome();
  CompleteStep();
  for (const char* name : {"b1", "b2"}) {
    Say(name, StatePinned{Generation(0), Version(2), {}, "this worker holds version 3 already"});
  }
  Listen();
  Pass(milliseconds(100));
  EXPECT_EQ(Told<PinState>("b1").at(0).version, Version(3));
  Pin("b1");
  Pin("b2");
  EXPECT_EQ(Told<Welcome>("new").at(0).version, Version(3));
}

TEST_F(CoordinatorJoinTest, ADonorThatPinsTooLateIsDoneWithoutAndToldToForgetIt) {
  StartAndCome();
  Pin("b1");
  Pass(options_.patience.pin);
  EXPECT_EQ(Told<Welcome>("new").at(0).donors.size(), 1u);
  Pin("b2");
  Copy("new");
  EXPECT_EQ(WhoWasTold<UnpinState>(), (std::set<std::string>{"b1", "b2"}));
}

TEST_F(CoordinatorJoinTest, ADonorThatIsLostWhileItPinsIsDoneWithout) {
  StartAndCome();
  Pin("b1");
  Lose("b2");
  Pass(milliseconds(100));
  EXPECT_EQ(Told<Welcome>("new").at(0).donors.size(), 1u);
}

TEST_F(CoordinatorJoinTest, ANewcomerThatIsLostFreesWhatIsPinnedAndChangesNothingElse) {
  StartAndCome();
  Pin("b1");
  Pin("b2");
  Listen();
  Lose("new");
  EXPECT_EQ(WhoWasTold<UnpinState>(), (std::set<std::string>{"b1", "b2"}));
  EXPECT_TRUE(WhoWasTold<RosterChange>().empty());
  CompleteStep();
}

TEST_F(CoordinatorJoinTest, WhoDoesNotComeToTheEndOfJoiningBeginsAgain) {
  StartAndCome();
  Pin("b1");
  Pin("b2");
  Pass(options_.patience.join);
  EXPECT_TRUE(Told<Shutdown>("new").at(0).rejoin);
}

TEST_F(CoordinatorJoinTest, WhoFallsTooFarBehindBeginsAgain) {
  options_.join_lag_max = 3;
  StartAndCome();
  Pin("b1");
  Pin("b2");
  for (int i = 0; i < 4; ++i) CompleteStep();
  Pass(milliseconds(100));
  EXPECT_TRUE(Told<Shutdown>("new").at(0).rejoin);
  EXPECT_EQ(WhoWasTold<UnpinState>(), (std::set<std::string>{"b1", "b2"}));
}

TEST_F(CoordinatorJoinTest, WhoTakesAnHourAndThreeHundredStepsToCopyJoinsAsLongAsBytesCome) {
  options_.max_steps = 1000;
  StartAndCome();
  Pin("b1");
  Pin("b2");
  for (std::uint64_t minute = 1; minute <= 60; ++minute) {
    for (int i = 0; i < 5; ++i) {
      CompleteStepWithoutTheJoiner();
      Pass(seconds(12));
    }
    Beat("new", {.copied_bytes = minute << 20});
  }
  EXPECT_TRUE(Told<Shutdown>("new").empty());
  Copy("new");
  for (std::uint64_t t = 2; t < step(); ++t) {  // it replays two steps while one is decided
    if (t % 2 == 0) CompleteStepWithoutTheJoiner();
    Pass(seconds(12));
    Apply("new", t, {t + 1, 7});
  }
  EXPECT_TRUE(Told<Shutdown>("new").empty());
  EXPECT_TRUE(Happened("WorkerJoined"));
}

TEST_F(CoordinatorJoinTest, WhoCopiesNothingForTooLongBeginsAgain) {
  StartAndCome();
  Pin("b1");
  Pin("b2");
  Beat("new", {.copied_bytes = 1 << 20});
  Pass(options_.patience.join / 2);
  Beat("new", {.copied_bytes = 1 << 20});
  EXPECT_TRUE(Told<Shutdown>("new").empty());
  Pass(options_.patience.join / 2);
  EXPECT_TRUE(Told<Shutdown>("new").at(0).rejoin);
}

TEST_F(CoordinatorJoinTest, WhoNeedsGradientsThatNoReplicaHasRoomForBeginsAgainAtOnce) {
  StartAndCome();
  Say("b1", StatePinned{Generation(0), Version(2), kState, {}, 3});
  Say("b2", StatePinned{Generation(0), Version(2), kState, {}, 5});
  for (int i = 0; i < 5; ++i) CompleteStepWithoutTheJoiner();
  Pass(milliseconds(100));
  EXPECT_TRUE(Told<Shutdown>("new").empty()) << "one donor keeps five steps";
  CompleteStepWithoutTheJoiner();
  Pass(milliseconds(100));
  EXPECT_TRUE(Told<Shutdown>("new").at(0).rejoin);
  EXPECT_EQ(WhoWasTold<UnpinState>(), (std::set<std::string>{"b1", "b2"}));
  // It may be too slow again, and its donors have better to do than to copy in vain.
  Come("new", 2);
  Listen();
  Pass(milliseconds(100));
  EXPECT_TRUE(WhoWasTold<PinState>().empty());
  Pass(seconds(10));
  EXPECT_FALSE(WhoWasTold<PinState>().empty());
}

TEST_F(CoordinatorJoinTest, AMemberThatJoinsDuringAVoidedStepIsToldItsScale) {
  StartAndCome();
  Pin("b1");
  Pin("b2");
  Say(Owner(0, 1),
      Progress{{{.key = Key(0, 1), .event = TaskReport::Event::kOverflow, .seconds = 1}}});
  AnswerVoids("b1");
  AnswerVoids("b2");
  Copy("new");
  EXPECT_EQ(Told<Void>("new").at(0).level, 1u);
  AnswerVoids("new");
  CompleteStep();
}

}  // namespace
}  // namespace swarm::protocol
