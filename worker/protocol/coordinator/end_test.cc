// Validations, checkpoints, and how a job ends.
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

class CoordinatorEndTest : public CoordinatorTest {
 protected:
  void Written(const std::string& name, std::uint64_t stage, std::uint64_t version,
               const std::string& error = {}) {
    Say(name, CheckpointWritten{Generation(0),
                                Version(version),
                                StageIndex(stage),
                                error,
                                {{"stage " + std::to_string(stage), 10, {}}}});
  }
  std::vector<protocol::Forward> Evaluations() const {
    std::vector<protocol::Forward> frames;
    for (const protocol::Forward& frame : Issued()) {
      if (frame.kind == TaskKind::kEvaluate) frames.push_back(frame);
    }
    return frames;
  }
  void Evaluated(const protocol::Forward& frame, double loss) {
    TaskReport report{.key = frame.key, .event = TaskReport::Event::kEvaluated, .loss = loss};
    report.key.stage = StageIndex(frame.hops.size() - 1);
    report.key.attempt = frame.hops.back().attempt;
    Say(frame.hops.back().worker.value, Progress{{report}});
  }
  void ValidateEveryStep() {
    options_.validation_interval_steps = 1;
    options_.validation_microbatches = 2;
  }
  void CheckpointEvery(std::uint64_t steps) {
    options_.checkpoint_interval_steps = steps;
    options_.checkpoint_uri = "folder";
  }
};

// ---- validation ----

TEST_F(CoordinatorEndTest, AValidationReadsTheNewestVersionAndTheNextCommitWaitsForIt) {
  options_.microbatches = 1;
  options_.validation_interval_steps = 1;
  options_.validation_microbatches = 1;
  StartTraining({1, 1});
  CompleteStep();
  ASSERT_EQ(Evaluations().size(), 1u);
  const protocol::Forward frame = Evaluations()[0];
  EXPECT_EQ(frame.version, Version(1));
  FoldAll();
  Reduce();
  EXPECT_EQ(step(), 1u);
  Evaluated(frame, 2);
  EXPECT_EQ(All<order::Validated>().at(0).version, Version(1));
  EXPECT_EQ(step(), 2u);
}

TEST_F(CoordinatorEndTest, TheValidationsLossIsTheMeanOfAllAndEachCountsOnce) {
  ValidateEveryStep();
  StartTraining({1, 1});
  CompleteStep();
  const auto frames = Evaluations();
  ASSERT_EQ(frames.size(), 2u);
  Evaluated(frames[0], 2);
  Evaluated(frames[0], 2);
  EXPECT_TRUE(All<order::Validated>().empty());
  Evaluated(frames[1], 4);
  EXPECT_EQ(All<order::Validated>().at(0).loss, 3);
}

TEST_F(CoordinatorEndTest, AnEvaluationOfALostWorkerIsDoneByAnother) {
  ValidateEveryStep();
  StartTraining({1, 2});
  CompleteStep();
  const auto before = Evaluations();
  Listen();
  Lose("b1");
  for (const protocol::Forward& frame : before) {
    if (frame.hops[1].worker.value == "b1") continue;
    Evaluated(frame, 2);
  }
  FoldAll();  // which makes room
  for (const protocol::Forward& frame : Evaluations()) {
    EXPECT_EQ(frame.hops[1].worker.value, "b2");
    Evaluated(frame, 2);
  }
  EXPECT_EQ(All<order::Validated>().size(), 1u);
}

TEST_F(CoordinatorEndTest, AnEvaluationThatDoesNotComeBackIsIssuedAgainAndItsFirstAnswerIgnored) {
  ValidateEveryStep();
  StartTraining({1, 1});
  CompleteStep();
  const auto before = Evaluations();
  Listen();
  for (int i = 0; i < 60 && Evaluations().size() < 2; ++i) Pass(seconds(10));
  ASSERT_EQ(Evaluations().size(), 2u);
  for (const protocol::Forward& frame : before) Evaluated(frame, 99);
  EXPECT_TRUE(All<order::Validated>().empty());
  for (const protocol::Forward& frame : Evaluations()) Evaluated(frame, 2);
  EXPECT_EQ(All<order::Validated>().at(0).loss, 2);
}

// ---- checkpoints ----

TEST_F(CoordinatorEndTest, ACheckpointIsWrittenByOneReplicaOfEachStageAndThenMadeVisible) {
  CheckpointEvery(2);
  StartTraining({2, 1});
  CompleteStep();
  EXPECT_TRUE(WhoWasTold<WriteCheckpoint>().empty());
  CompleteStep();
  const auto writers = WhoWasTold<WriteCheckpoint>();
  EXPECT_EQ(writers.size(), 2u);
  EXPECT_EQ(Told<WriteCheckpoint>("b1").at(0).version, Version(2));
  Written(*writers.begin(), 0, 2);
  EXPECT_TRUE(All<order::PublishCheckpoint>().empty());
  Written("b1", 1, 2);
  EXPECT_EQ(All<order::PublishCheckpoint>().at(0).version, Version(2));
  EXPECT_EQ(All<order::PublishCheckpoint>().at(0).files.size(), 2u);
  EXPECT_FALSE(Happened("CheckpointWritten"));
  Publish(Version(2));
  EXPECT_TRUE(Happened("CheckpointWritten"));
}

TEST_F(CoordinatorEndTest, ReplicasTakeTurnsInWriting) {
  CheckpointEvery(1);
  StartTraining({2, 1});
  std::set<std::string> writers;
  for (std::uint64_t version = 1; version <= 2; ++version) {
    Listen();
    CompleteStep();
    for (const std::string& name : WhoWasTold<WriteCheckpoint>()) {
      Written(name, name[0] == 'a' ? 0 : 1, version);
      if (name[0] == 'a') writers.insert(name);
    }
    Publish(Version(version));
  }
  EXPECT_EQ(writers.size(), 2u);
}

TEST_F(CoordinatorEndTest, ACheckpointThatFailsCostsNothingButItself) {
  CheckpointEvery(1);
  StartTraining({1, 1});
  CompleteStep();
  Written("a1", 0, 1, "the disk is full");
  EXPECT_TRUE(Happened("CheckpointFailed"));
  Listen();
  CompleteStep();
  EXPECT_EQ(Told<WriteCheckpoint>("a1").at(0).version, Version(2));
}

TEST_F(CoordinatorEndTest, ACheckpointThatIsDueWhileOneIsBeingWrittenIsLeftOut) {
  CheckpointEvery(1);
  StartTraining({1, 1});
  CompleteStep();
  Listen();
  CompleteStep();
  EXPECT_TRUE(Happened("CheckpointDelayed"));
  EXPECT_TRUE(WhoWasTold<WriteCheckpoint>().empty());
}

TEST_F(CoordinatorEndTest, ACheckpointWhoseWriterIsLostIsOver) {
  CheckpointEvery(1);
  StartTraining({2, 1});
  CompleteStep();
  const std::string writer = *WhoWasTold<WriteCheckpoint>().begin();
  Lose(writer);
  EXPECT_TRUE(Happened("CheckpointFailed"));
  Written("b1", 1, 1);
  EXPECT_TRUE(All<order::PublishCheckpoint>().empty());
}

// ---- the end ----

TEST_F(CoordinatorEndTest, AJobEndsAfterItsLastStepAndItsLastCheckpoint) {
  options_.max_steps = 1;
  options_.checkpoint_uri = "folder";
  StartTraining({1, 1});
  CompleteStep();
  EXPECT_EQ(state(), "Finishing");
  EXPECT_FALSE(Finished());
  Pass(seconds(1));
  EXPECT_EQ(Told<WriteCheckpoint>("a1").size(), 1u);  // it is asked for once
  Written("a1", 0, 1);
  Written("b1", 1, 1);
  Publish(Version(1));
  ASSERT_TRUE(Finished());
  EXPECT_TRUE(Finished()->succeeded);
  EXPECT_FALSE(Finished()->stopped_early);
  EXPECT_EQ(WhoWasTold<Shutdown>(), (std::set<std::string>{"a1", "b1"}));
  EXPECT_FALSE(Told<Shutdown>("a1").at(0).rejoin);
}

TEST_F(CoordinatorEndTest, WithoutAFolderForCheckpointsTheJobJustEnds) {
  options_.max_steps = 2;
  StartTraining({1, 1});
  CompleteStep();
  EXPECT_FALSE(Finished());
  CompleteStep();
  EXPECT_TRUE(Finished()->succeeded);
}

TEST_F(CoordinatorEndTest, TheLastCheckpointIsTriedSeveralTimesAndThenTheJobFails) {
  options_.max_steps = 1;
  options_.checkpoint_uri = "folder";
  StartTraining({1, 1});
  CompleteStep();
  int tries = 0;
  for (; !Finished() && tries < 100; ++tries) Written("a1", 0, 1, "the disk is full");
  ASSERT_TRUE(Finished());
  EXPECT_FALSE(Finished()->succeeded);
  EXPECT_GT(tries, 1);
  EXPECT_NE(Finished()->reason.find("the disk is full"), std::string::npos);
}

TEST_F(CoordinatorEndTest, TheLastCheckpointWaitsForAStorageThatMayComeBack) {
  options_.max_steps = 1;
  options_.checkpoint_uri = "s3://bucket/folder";
  options_.last_checkpoint_patience = seconds(60);
  StartTraining({1, 1});
  CompleteStep();
  for (int tries = 0; tries < 100; ++tries) Written("a1", 0, 1, "no answer");
  EXPECT_FALSE(Finished());
  Pass(seconds(61));
  Written("a1", 0, 1, "no answer");
  ASSERT_TRUE(Finished());
  EXPECT_FALSE(Finished()->succeeded);
}

TEST_F(CoordinatorEndTest, TheLastCheckpointOutlivesTheLossOfItsWriter) {
  options_.max_steps = 1;
  options_.checkpoint_uri = "folder";
  StartTraining({2, 1});
  CompleteStep();
  const std::string writer = *WhoWasTold<WriteCheckpoint>().begin();
  Listen();
  Lose(writer);
  ASSERT_EQ(WhoWasTold<WriteCheckpoint>().size(), 2u);
  for (const std::string& name : WhoWasTold<WriteCheckpoint>()) {
    Written(name, name[0] == 'a' ? 0 : 1, 1);
  }
  Publish(Version(1));
  EXPECT_TRUE(Finished()->succeeded);
}

TEST_F(CoordinatorEndTest, AStopFinishesTheStepThatHasBegun) {
  options_.checkpoint_uri = "folder";
  StartTraining({1, 1});
  CompleteStep();
  Listen();
  Stop();
  Stop();  // asking twice is asking once
  EXPECT_TRUE(Happened("Stopping"));
  EXPECT_FALSE(Finished());
  CompleteStep();
  EXPECT_TRUE(Issued().empty());
  Written("a1", 0, 2);
  Written("b1", 1, 2);
  Publish(Version(2));
  ASSERT_TRUE(Finished());
  EXPECT_TRUE(Finished()->succeeded);
  EXPECT_TRUE(Finished()->stopped_early);
}

TEST_F(CoordinatorEndTest, AStopInDelayedModeFinishesBothStepsThatHaveBegun) {
  options_.delayed = true;
  StartTraining({1, 1});
  FoldAll();
  Stop();
  FoldAll();
  Reduce();
  EXPECT_FALSE(Finished());
  FoldAll();
  Reduce();
  EXPECT_TRUE(Finished()->stopped_early);
  EXPECT_EQ(step(), 2u);
}

TEST_F(CoordinatorEndTest, AStopBeforeTheStartEndsTheJobAtOnce) {
  options_.replicas = {1, 1};
  Create();
  Come("a1");
  Stop();
  ASSERT_TRUE(Finished());
  EXPECT_TRUE(Finished()->stopped_early);
  EXPECT_EQ(WhoWasTold<Shutdown>(), std::set<std::string>{"a1"});
}

TEST_F(CoordinatorEndTest, AStopHoldsThroughALossOfAStage) {
  StartTraining({1, 1});
  CompleteStep();
  Stop();
  Lose("b1");
  Come("b1", 2);
  BeginGeneration(1, 0);
  Load("a1");
  Listen();
  Load("b1");
  EXPECT_TRUE(Issued().empty());
  EXPECT_TRUE(Finished()->stopped_early);
}

TEST_F(CoordinatorEndTest, AJobWhoseTokensCannotBeReadFailsForTheReason) {
  StartTraining({1, 1});
  const Orders orders = coordinator().OnTokensLost("a.bin: id 7", FailureClass::kBadConfig);
  const auto finish = std::ranges::find_if(
      orders, [](const Order& o) { return std::holds_alternative<order::Finish>(o); });
  ASSERT_NE(finish, orders.end());
  EXPECT_FALSE(std::get<order::Finish>(*finish).succeeded);
  EXPECT_EQ(std::get<order::Finish>(*finish).failure_class, FailureClass::kBadConfig);
  EXPECT_EQ(std::get<order::Finish>(*finish).reason, "a.bin: id 7");
}

}  // namespace
}  // namespace swarm::protocol
