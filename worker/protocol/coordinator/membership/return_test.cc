// Workers that were sent away while they lived, and come back with the state of their stage.
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

/// Of a stage, in these tests.
Digest StateOf(std::uint64_t version) { return {version, 7}; }

class CoordinatorReturnTest : public CoordinatorTest {
 protected:
  /// Two steps with it, then b3 is gone, and `steps` more without it.
  void LoseOneOfThree(int steps) {
    StartTraining({1, 3});
    for (int i = 0; i < 2; ++i) CompleteStep();
    Lose("b3");
    for (int i = 0; i < steps; ++i) CompleteStep();
  }
  void ComeBackWith(std::uint64_t version, const Digest& state, std::uint64_t stage = 1,
                    const std::string& name = "b3") {
    Listen();
    Hello hello = HelloOf(name, 2);
    hello.offers = true;
    hello.offer = {StageIndex(stage), Version(version), state};
    Say(name, hello);
  }
  /// It is to go on from its own state.
  bool IsTakenBack(const std::string& name = "b3") const {
    const auto welcomes = Told<Welcome>(name);
    return !welcomes.empty() && welcomes.back().goes_on;
  }
  /// It joins as one without a state.
  bool IsToCopy(const std::string& name = "b3") const {
    return !IsTakenBack(name) && !WhoWasTold<PinState>().empty();
  }
};

TEST_F(CoordinatorReturnTest, ItCopiesNothingAndReplaysWhatWasDecidedWithoutIt) {
  LoseOneOfThree(3);
  ComeBackWith(2, StateOf(2));
  ASSERT_TRUE(IsTakenBack());
  EXPECT_TRUE(WhoWasTold<PinState>().empty());
  const Welcome welcome = Told<Welcome>("b3").at(0);
  EXPECT_EQ(welcome.stage, StageIndex(1));
  EXPECT_EQ(welcome.version, Version(2));
  EXPECT_EQ(welcome.donors.size(), 2u);
  std::vector<std::uint64_t> steps;
  for (const Commit& commit : Told<Commit>("b3")) steps.push_back(commit.record.step.value);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{2, 3, 4}));
  Load("b3", StateOf(2));
  for (const std::uint64_t step : {2, 3, 4}) Apply("b3", step, StateOf(step + 1));
  EXPECT_TRUE(Happened("WorkerJoined"));
  Listen();
  for (int i = 0; i < 3; ++i) CompleteStep();
  EXPECT_FALSE(Told<protocol::Reduce>("b3").empty());
}

TEST_F(CoordinatorReturnTest, ItMayHaveAppliedAStepOfWhichTheTrainerDidNotHear) {
  StartTraining({1, 3});
  CompleteStep();
  FoldAll();
  Reduce();
  for (const char* name : {"a1", "b1", "b2"}) Apply(name, 1, StateOf(2));
  Lose("b3");
  for (int i = 0; i < 3; ++i) CompleteStep();
  ComeBackWith(2, StateOf(2));
  EXPECT_TRUE(IsTakenBack());
}

TEST_F(CoordinatorReturnTest, ItMayComeBackAfterManySteps) {
  LoseOneOfThree(30);
  ComeBackWith(2, StateOf(2));
  EXPECT_TRUE(IsTakenBack());
}

TEST_F(CoordinatorReturnTest, ItMayStillHoldTheStateThatTheJobBeganWith) {
  StartTraining({1, 3});
  Lose("b3");
  FoldAll();
  Reduce();  // and no replica has reported the next one yet
  ComeBackWith(0, {7, 7});
  EXPECT_TRUE(IsTakenBack());
}

TEST_F(CoordinatorReturnTest, ItGoesOnAtOnceWhereNothingWasDecidedMeanwhile) {
  LoseOneOfThree(0);
  ComeBackWith(2, StateOf(2));
  ASSERT_TRUE(IsTakenBack());
  Load("b3", StateOf(2));
  EXPECT_TRUE(Happened("WorkerJoined"));
  CompleteStep();
}

TEST_F(CoordinatorReturnTest, ItCopiesIfItsStateIsNotWhatTheReplicasHad) {
  LoseOneOfThree(3);
  ComeBackWith(2, {9, 9});
  EXPECT_TRUE(IsToCopy());
}

TEST_F(CoordinatorReturnTest, ItCopiesIfItsStateIsThatOfAnotherVersion) {
  LoseOneOfThree(3);
  ComeBackWith(3, StateOf(2));
  EXPECT_TRUE(IsToCopy());
}

TEST_F(CoordinatorReturnTest, ItCopiesIfItsStateIsThatOfAnotherStage) {
  LoseOneOfThree(3);
  ComeBackWith(2, StateOf(2), 7);
  EXPECT_TRUE(IsToCopy());
}

TEST_F(CoordinatorReturnTest, ItWaitsUntilTheReplicasHaveReportedThatVersion) {
  LoseOneOfThree(1);
  FoldAll();
  Reduce();
  Apply("b1", 3, StateOf(4));
  ComeBackWith(4, StateOf(4));
  EXPECT_TRUE(Told<Welcome>("b3").empty());
  EXPECT_TRUE(WhoWasTold<PinState>().empty());
  Apply("b2", 3, StateOf(4));
  Pass(milliseconds(100));
  EXPECT_TRUE(IsTakenBack());
}

TEST_F(CoordinatorReturnTest, AReplicaThatReportsAnotherStateIsGoneBeforeItIsBelieved) {
  LoseOneOfThree(1);
  FoldAll();
  Reduce();
  Apply("b1", 3, {9, 9});
  ComeBackWith(4, {9, 9});
  EXPECT_TRUE(Told<Welcome>("b3").empty());
  Apply("a1", 3, StateOf(4));
  Apply("b2", 3, StateOf(4));  // nobody knows which of the two is right
  EXPECT_TRUE(Happened("StageLost"));
  EXPECT_FALSE(IsTakenBack());
}

TEST_F(CoordinatorReturnTest, ReplicasKeepWhatItLacksForAWhile) {
  LoseOneOfThree(3);
  EXPECT_LE(Told<Commit>("b1").back().keep_from, Step(2));
  EXPECT_GT(Told<Commit>("a1").back().keep_from, Step(2));
  Pass(options_.patience.away);
  CompleteStep();
  EXPECT_GT(Told<Commit>("b1").back().keep_from, Step(2));
  ComeBackWith(2, StateOf(2));
  EXPECT_TRUE(IsToCopy());
}

TEST_F(CoordinatorReturnTest, ReplicasKeepWhatItLacksUpToTheStepsThatAJoinerMayLag) {
  options_.join_lag_max = 3;
  LoseOneOfThree(4);
  Pass(milliseconds(100));
  CompleteStep();
  EXPECT_GT(Told<Commit>("b1").back().keep_from, Step(2));
}

TEST_F(CoordinatorReturnTest, ReplicasKeepNothingForAProcessThatWasStartedAgain) {
  LoseOneOfThree(1);
  Come("b3", 2);
  Lose("b3");
  CompleteStep();
  EXPECT_GT(Told<Commit>("b1").back().keep_from, Step(2));
}

TEST_F(CoordinatorReturnTest, ItCopiesIfNoReplicaHasTheGradientsSince) {
  StartTraining({1, 3});
  for (int i = 0; i < 2; ++i) CompleteStep();
  Lose("b3");
  for (int i = 0; i < 3; ++i) {
    FoldAll();
    Reduce();
    Apply("a1", step() - 1, StateOf(step()));
    for (const char* name : {"b1", "b2"}) {
      Say(name, Committed{Generation(0), Step(step() - 1), StateOf(step()), Step(3)});
    }
  }
  ComeBackWith(2, StateOf(2));
  EXPECT_TRUE(IsToCopy());
}

TEST_F(CoordinatorReturnTest, AReplicaThatNeedsTheGradientsItselfHasNone) {
  LoseOneOfThree(0);
  FoldAll();  // b1 and b2 begin the sum
  ComeBackWith(2, StateOf(2));
  Load("b3", StateOf(2));
  ASSERT_TRUE(Happened("WorkerJoined"));
  Reduce();
  Lose("b1");
  ComeBackWith(2, StateOf(2), 1, "b1");
  EXPECT_TRUE(IsTakenBack("b1")) << "b2 has the sum, and has not applied it yet";
  Lose("b1");
  Lose("b2");
  ComeBackWith(2, StateOf(2), 1, "b2");
  EXPECT_TRUE(IsToCopy("b2")) << "b3 replays the step itself: it would wait for b2";
}

TEST_F(CoordinatorReturnTest, OnlyReplicasWithAllGradientsSinceAreItsDonors) {
  StartTraining({1, 3});
  for (int i = 0; i < 2; ++i) CompleteStep();
  Lose("b3");
  CompleteStep();
  FoldAll();
  Reduce();
  Apply("a1", 3, StateOf(4));
  Say("b1", Committed{Generation(0), Step(3), StateOf(4), Step(3)});
  Say("b2", Committed{Generation(0), Step(3), StateOf(4), Step(2)});
  ComeBackWith(2, StateOf(2));
  ASSERT_TRUE(IsTakenBack());
  ASSERT_EQ(Told<Welcome>("b3").at(0).donors.size(), 1u);
  EXPECT_EQ(Told<Welcome>("b3").at(0).donors.at(0).id, WorkerId("b2"));
}

TEST_F(CoordinatorReturnTest, WhoLoadsSomethingElseThanItHasOfferedIsSentAwayAgain) {
  LoseOneOfThree(3);
  ComeBackWith(2, StateOf(2));
  Load("b3", {9, 9});
  EXPECT_TRUE(Told<Shutdown>("b3").at(0).rejoin);
  EXPECT_FALSE(Finished());
}

TEST_F(CoordinatorReturnTest, WhoIsOrderedToAnotherStageGoesThereWhateverItHolds) {
  LoseOneOfThree(1);
  FoldAll();
  Reduce();
  ComeBackWith(4, StateOf(4));
  Say("operator", Direct{.leader_term = 1, .moves = {{WorkerId("b3"), StageIndex(0)}}});
  Apply();
  Pass(milliseconds(100));
  EXPECT_TRUE(IsToCopy());
  EXPECT_EQ(WhoWasTold<PinState>(), std::set<std::string>{"a1"});
}

TEST_F(CoordinatorReturnTest, AStateOfBeforeARollbackCountsIfTheReplicasHaveTheSameNow) {
  StartTraining({1, 2});
  for (int i = 0; i < 2; ++i) CompleteStep();
  Lose("a1");  // the last of its stage: one of the others serves it from now on
  BeginGeneration(1, 0);
  for (const char* name : {"b1", "b2"}) Load(name);
  ASSERT_EQ(state(), "Training");
  for (int i = 0; i < 2; ++i) CompleteStep();
  ComeBackWith(1, StateOf(1));
  EXPECT_TRUE(IsTakenBack());
}

}  // namespace
}  // namespace swarm::protocol
