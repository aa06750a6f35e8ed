// A stage without a replica: wait, go back to the last checkpoint as a new generation, go on.
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

class CoordinatorRollbackTest : public CoordinatorTest {
 protected:
  std::uint64_t AskedFor() const {
    const auto asked = All<order::BeginGeneration>();
    return asked.empty() ? 0 : asked.back().generation.value;
  }
};

TEST_F(CoordinatorRollbackTest, AStageThatIsLostWaitsForAWorkerAndSaysSo) {
  StartTraining({1, 1});
  CompleteStep();
  Listen();
  Lose("b1");
  EXPECT_TRUE(Happened("StageLost"));
  EXPECT_EQ(state(), "Waiting");
  EXPECT_EQ(AskedFor(), 0u);
  EXPECT_FALSE(Finished());
  EXPECT_TRUE(Issued().empty());
  Come("b1", 2);
  EXPECT_EQ(AskedFor(), 1u);
}

TEST_F(CoordinatorRollbackTest, NobodyIsToldBeforeTheGenerationIsDurable) {
  StartTraining({1, 1});
  Lose("b1");
  Listen();
  Come("b1", 2);
  EXPECT_TRUE(WhoWasTold<Rollback>().empty());
  EXPECT_TRUE(WhoWasTold<Welcome>().empty());
  BeginGeneration(1, 5);
  const Rollback rollback = Told<Rollback>("a1").at(0);
  EXPECT_EQ(rollback.generation, Generation(1));
  EXPECT_EQ(rollback.version, Version(5));
  EXPECT_EQ(rollback.checkpoint_uri, "uri");
  EXPECT_EQ(rollback.manifest, (Digest{.high = 5, .low = 1}));
  const Welcome welcome = Told<Welcome>("b1").at(0);
  EXPECT_EQ(welcome.generation, Generation(1));
  EXPECT_EQ(welcome.stage, StageIndex(1));
  EXPECT_EQ(welcome.version, Version(5));
  EXPECT_EQ(welcome.manifest, (Digest{.high = 5, .low = 1}));
}

TEST_F(CoordinatorRollbackTest, TrainingGoesOnFromTheCheckpointWhenEveryStageHasLoadedIt) {
  StartTraining({1, 1});
  for (int i = 0; i < 3; ++i) CompleteStep();
  Lose("b1");
  Come("b1", 2);
  BeginGeneration(1, 2);
  Load("a1");
  EXPECT_EQ(state(), "Loading");
  Listen();
  Load("b1");
  EXPECT_EQ(state(), "Training");
  EXPECT_EQ(step(), 2u);
  ASSERT_FALSE(Issued().empty());
  EXPECT_EQ(Issued()[0].key.generation, Generation(1));
  EXPECT_EQ(Issued()[0].key.step, Step(2));
  EXPECT_EQ(Told<Roster>("a1").at(0).generation, Generation(1));
  CompleteStep();
}

TEST_F(CoordinatorRollbackTest, WhatIsSaidOfTheGenerationBeforeChangesNothing) {
  StartTraining({1, 1});
  FoldAll();
  const protocol::Reduce old = Asked("a1", 0);
  const TaskKey key = Key(0, 0);
  Lose("b1");
  Come("b1", 2);
  BeginGeneration(1, 0);
  Load("a1");
  Load("b1");
  Listen();
  Say("a1", Progress{{{.key = key, .event = TaskReport::Event::kFolded}}});
  Say("a1", Reduced{old.generation, old.step, old.group, old.k, {1, 1}, {}});
  Say("a1", ReduceRefused{old.generation, old.step, old.group, old.k, {}});
  Say("a1", Committed{Generation(0), Step(0), {9, 9}});
  Say("a1", Revoked{key, false});
  Say("a1", Missing{key, false});
  EXPECT_TRUE(orders().empty());
  CompleteStep();
}

TEST_F(CoordinatorRollbackTest, AStateOfTheGenerationBeforeIsNotComparedWithThoseOfThisOne) {
  StartTraining({3, 1});
  Lose("b1");  // a3 takes its place
  BeginGeneration(1, 0);
  for (const char* name : {"a1", "a2", "a3"}) Load(name);
  Say("a2", Committed{Generation(0), Step(0), {9, 9}});
  FoldAll();
  Reduce();
  Listen();
  Apply("a1", 0, {1, 1});
  EXPECT_FALSE(Happened("WorkerLost"));
}

TEST_F(CoordinatorRollbackTest, AStateThatIsReportedWhileTheJobGoesBackIsComparedWithNone) {
  StartTraining({3, 1, 1});
  FoldAll();
  Reduce();
  Say("b1", Leaving{100});
  Lose("c1");
  Listen();
  // Stage 1 will be served by one of stage 0, and b1 still stands for it.
  Apply("b1", 0, {2, 2});
  for (const char* name : {"a1", "a2", "a3"}) Apply(name, 0, {1, 1});
  EXPECT_FALSE(Happened("WorkerLost"));
  EXPECT_FALSE(Finished());
}

TEST_F(CoordinatorRollbackTest, WhoHasLoadedForTheGenerationBeforeHasNotLoadedForThisOne) {
  StartTraining({1, 1});
  for (std::uint64_t generation = 1; generation <= 2; ++generation) {
    Lose("b1");
    Come("b1", generation + 1);
    BeginGeneration(generation, 0);
  }
  Load("b1");
  Say("a1", Ready{Generation(1), StageIndex(0), Version(0), {7, 7}});
  EXPECT_EQ(state(), "Loading");
  Load("a1");
  EXPECT_EQ(state(), "Training");
}

TEST_F(CoordinatorRollbackTest, FramesForTheProcessBeforeAreClosedToTheOneThatComesBack) {
  StartTraining({1, 1});
  const Attempt before = Key(0, 1).attempt;
  Lose("b1");
  Come("b1", 2);
  BeginGeneration(1, 0);
  EXPECT_GT(Told<Welcome>("b1").back().floor, before);
}

TEST_F(CoordinatorRollbackTest, ANewcomerIsToldNoRecordOfTheGenerationBefore) {
  StartTraining({1, 2});
  CompleteStep();
  Lose("a1");
  Come("a1", 2);
  BeginGeneration(1, 0);
  for (const char* name : {"a1", "b1", "b2"}) Load(name);
  Listen();
  Come("new");
  for (const std::string& donor : WhoWasTold<PinState>()) {
    Say(donor, StatePinned{Generation(1), Version(0), {5, 5}, {}});
  }
  EXPECT_EQ(Told<Welcome>("new").size(), 1u);
  EXPECT_TRUE(Told<Commit>("new").empty());
}

TEST_F(CoordinatorRollbackTest, ManyRollbacksLeaveRoomForTheSameWork) {
  options_.microbatches = 20;
  StartTraining({1, 1});
  const std::size_t room = Issued().size();
  for (std::uint64_t generation = 1; generation < 6; ++generation) {
    for (const std::uint64_t m : {0, 1}) Fold(m, 1);  // a1 still has them, and gets more
    Lose("b1");
    Come("b1", generation + 1);
    BeginGeneration(generation, 0);
    Load("a1");
    Listen();
    Load("b1");
    EXPECT_EQ(Issued().size(), room) << "in generation " << generation;
  }
  CompleteStep();
}

TEST_F(CoordinatorRollbackTest, AStageThatHasTwoLendsOneToTheStageThatWasLost) {
  StartTraining({2, 1});
  Listen();
  Lose("b1");
  EXPECT_EQ(AskedFor(), 1u);
  BeginGeneration(1, 0);
  std::set<StageIndex> stages;
  for (const char* name : {"a1", "a2"}) stages.insert(Told<Rollback>(name).at(0).stage);
  EXPECT_EQ(stages, (std::set{StageIndex(0), StageIndex(1)}));
  Load("a1");
  Load("a2");
  CompleteStep();
}

TEST_F(CoordinatorRollbackTest, ALossOfOneOfTwoReplicasIsNoReasonToGoBack) {
  StartTraining({2, 1});
  Lose("a1");
  EXPECT_EQ(AskedFor(), 0u);
  CompleteStep();
}

TEST_F(CoordinatorRollbackTest, WhoOnlyJoinsCannotKeepAStageButLoadsItsCheckpoint) {
  StartTraining({1, 1});
  Come("new");
  const std::string donor = *WhoWasTold<PinState>().begin();
  Say(donor, StatePinned{Generation(0), Version(0), {5, 5}, {}});
  ASSERT_EQ(Told<Welcome>("new").size(), 1u);
  Lose(donor);
  EXPECT_TRUE(Happened("StageLost"));
  EXPECT_EQ(AskedFor(), 1u);
  BeginGeneration(1, 0);
  EXPECT_EQ(Told<Rollback>("new").at(0).stage, Told<Welcome>("new")[0].stage);
  Load("new");
  Load(donor == "a1" ? "b1" : "a1");
  CompleteStep();
}

TEST_F(CoordinatorRollbackTest, ALossBeforeTheGenerationIsDurableBeginsAnotherOne) {
  StartTraining({1, 1});
  Lose("b1");
  Come("b1", 2);
  Lose("b1");
  BeginGeneration(1, 0);
  EXPECT_NE(state(), "Training");
  Come("b1", 3);
  EXPECT_EQ(AskedFor(), 2u);
  BeginGeneration(2, 0);
  Load("a1");
  Load("b1");
  CompleteStep();
}

TEST_F(CoordinatorRollbackTest, ALossWhileAllLoadBeginsAnotherGeneration) {
  StartTraining({1, 1});
  Lose("b1");
  Come("b1", 2);
  BeginGeneration(1, 0);
  Load("a1");
  Lose("b1");
  EXPECT_NE(state(), "Training");
  Come("b1", 3);
  EXPECT_EQ(AskedFor(), 2u);
}

TEST_F(CoordinatorRollbackTest, ALossOfOneOfTwoWhileAllLoadIsDoneWithout) {
  StartTraining({3, 1});
  Lose("b1");
  BeginGeneration(1, 0);
  std::map<StageIndex, std::vector<std::string>> staff;
  for (const char* name : {"a1", "a2", "a3"}) {
    staff[Told<Rollback>(name).at(0).stage].push_back(name);
  }
  Load(staff.at(StageIndex(0)).at(0));
  Load(staff.at(StageIndex(1)).at(0));
  EXPECT_EQ(state(), "Loading");
  Lose(staff.at(StageIndex(0)).at(1));
  EXPECT_EQ(state(), "Training");
  CompleteStep();
}

TEST_F(CoordinatorRollbackTest, WhoDoesNotLoadIsEvicted) {
  StartTraining({2, 1});
  Lose("b1");
  BeginGeneration(1, 0);
  Load("a1");
  Pass(options_.patience.load);
  EXPECT_TRUE(Told<Shutdown>("a2").at(0).rejoin);
}

TEST_F(CoordinatorRollbackTest, ReplicasThatLoadDifferentWeightsEndTheJob) {
  StartTraining({3, 1});
  Lose("b1");
  BeginGeneration(1, 0);
  Load("a1", {1, 1});
  Load("a2", {2, 2});
  Load("a3", {3, 3});
  ASSERT_TRUE(Finished());
  EXPECT_FALSE(Finished()->succeeded);
}

TEST_F(CoordinatorRollbackTest, AValidationAndACheckpointOfTheGenerationBeforeAreForgotten) {
  options_.validation_interval_steps = 1;
  options_.validation_microbatches = 1;
  options_.checkpoint_interval_steps = 1;
  options_.checkpoint_uri = "folder";
  StartTraining({1, 1});
  FoldAll();
  Reduce();
  ASSERT_FALSE(WhoWasTold<WriteCheckpoint>().empty());
  Lose("b1");
  Come("b1", 2);
  BeginGeneration(1, 0);
  Load("a1");
  Listen();
  Load("b1");
  for (const protocol::Forward& frame : Issued()) EXPECT_EQ(frame.kind, TaskKind::kTrain);
  Say("a1", CheckpointWritten{Generation(0), Version(1), StageIndex(0), {}, {}});
  EXPECT_TRUE(All<order::PublishCheckpoint>().empty());
}

TEST_F(CoordinatorRollbackTest, ACheckpointThatARollbackEndedIsNotWaitedForNorAreItsFilesTaken) {
  options_.checkpoint_interval_steps = 1;
  options_.checkpoint_uri = "folder";
  StartTraining({1, 1});
  CompleteStep();
  Say("b1", CheckpointWritten{Generation(0), Version(1), StageIndex(1), {}, {}});
  Lose("b1");
  Come("b1", 2);
  BeginGeneration(1, 0);
  Load("a1");
  Load("b1");
  Listen();
  CompleteStep();
  EXPECT_EQ(WhoWasTold<WriteCheckpoint>(), (std::set<std::string>{"a1", "b1"}));
  Say("a1", CheckpointWritten{Generation(0), Version(1), StageIndex(0), {}, {}});
  Say("b1", CheckpointWritten{Generation(1), Version(1), StageIndex(1), {}, {}});
  EXPECT_TRUE(All<order::PublishCheckpoint>().empty());
}

TEST_F(CoordinatorRollbackTest, AStopWhileAStageIsLostEndsTheJob) {
  StartTraining({1, 1});
  Lose("b1");
  Stop();
  ASSERT_TRUE(Finished());
  EXPECT_TRUE(Finished()->stopped_early);
}

// ---- a checkpoint that cannot be loaded ----

TEST_F(CoordinatorRollbackTest, WhatAWorkerCannotLoadIsLookedAtBeforeTheJobBeginsWithItAgain) {
  options_.replicas = {2, 1};
  options_.first_version = Version(40);
  options_.resume_uri = "folder/40";
  Create();
  for (const std::string name : {"w1", "w2", "w3"}) Come(name);
  const Failure damaged{"stage-0-of-2.safetensors is damaged", FailureClass::kInternal};
  Listen();
  for (const std::string name : {"w1", "w2", "w3"}) Say(name, damaged);
  EXPECT_FALSE(Finished()) << "the same checkpoint is one trouble";
  for (const std::string name : {"w1", "w2", "w3"}) Come(name, 2);
  for (std::uint64_t generation = 1; state() != "Training"; ++generation) {
    ASSERT_EQ(AskedFor(), generation);
    BeginGeneration(generation, 20);
    for (const std::string& name : WhoWasTold<Welcome>()) Load(name);
  }
  EXPECT_TRUE(All<order::BeginGeneration>()[0].doubted);
  EXPECT_EQ(step(), 20u);
}

TEST_F(CoordinatorRollbackTest, WhatNoWorkerCanLoadThoughItIsIntactEndsTheJob) {
  options_.replicas = {1};
  options_.first_version = Version(40);
  options_.resume_uri = "folder/40";
  Create();
  for (std::uint64_t incarnation = 1; incarnation <= 3; ++incarnation) {
    Come("w1", incarnation);
    if (incarnation > 1) BeginGeneration(incarnation - 1, 40);
    EXPECT_FALSE(Finished());
    Say("w1",
        Failure{"no kernel for this device", FailureClass::kInternal, Generation(incarnation - 1)});
  }
  ASSERT_TRUE(Finished());
  EXPECT_EQ(Finished()->failure_class, FailureClass::kWorkerFailed);
}

}  // namespace
}  // namespace swarm::protocol
