// How a job begins: which workers may come, which stage they get, when training starts.
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

using CoordinatorStartTest = CoordinatorTest;

TEST_F(CoordinatorStartTest, TheFirstToComeFillTheStagesThatLackMost) {
  options_.replicas = {1, 3};
  Create();
  for (const char* name : {"w1", "w2", "w3", "w4"}) Come(name);
  EXPECT_EQ(Told<Welcome>("w1").at(0).stage, StageIndex(1));
  EXPECT_EQ(Told<Welcome>("w2").at(0).stage, StageIndex(1));
  EXPECT_EQ(Told<Welcome>("w3").at(0).stage, StageIndex(0));
  EXPECT_EQ(Told<Welcome>("w4").at(0).stage, StageIndex(1));
}

TEST_F(CoordinatorStartTest, TheWorkersOfAPodServeOneStageButNotAlone) {
  options_.replicas = {3, 3};
  for (const char* name : {"p1", "p2", "p3"}) pods_[name] = "p";
  for (const char* name : {"q1", "q2", "q3"}) pods_[name] = "q";
  Create();
  std::map<std::string, StageIndex> stages;
  for (const char* name : {"p1", "p2", "p3", "q1", "q2", "q3"}) {
    Come(name);
    ASSERT_EQ(Told<Welcome>(name).size(), 1u) << name;
    stages[name] = Told<Welcome>(name)[0].stage;
  }
  EXPECT_EQ(stages["p1"], StageIndex(0));
  EXPECT_EQ(stages["p2"], StageIndex(0));
  EXPECT_EQ(stages["p3"], StageIndex(1));  // the last place of the stage is for another pod
  EXPECT_EQ(stages["q1"], StageIndex(1));
  EXPECT_EQ(stages["q2"], StageIndex(1));
  EXPECT_EQ(stages["q3"], StageIndex(0));
}

TEST_F(CoordinatorStartTest, APodThatIsAloneServesAllStages) {
  options_.replicas = {2, 1};
  Create();
  for (const char* name : {"p1", "p2", "p3"}) {
    pods_[name] = "p";
    Come(name);
    Load(name);
  }
  EXPECT_EQ(state(), "Training");
}

TEST_F(CoordinatorStartTest, TheLastPlaceOfAStageInOneRegionIsForAnotherRegion) {
  options_.replicas = {2, 2};
  options_.regions.survive_loss = true;
  regions_ = {{"w1", "eu"}, {"w2", "us"}, {"w3", "us"}, {"w4", "eu"}};
  Create();
  for (const char* name : {"w1", "w2", "w3", "w4"}) Come(name);
  EXPECT_EQ(Told<Welcome>("w1").at(0).stage, StageIndex(0));
  EXPECT_EQ(Told<Welcome>("w2").at(0).stage, StageIndex(0));
  EXPECT_EQ(Told<Welcome>("w3").at(0).stage, StageIndex(1));
  EXPECT_EQ(Told<Welcome>("w4").at(0).stage, StageIndex(1));
}

TEST_F(CoordinatorStartTest, NeighbouringStagesBeginInOneRegion) {
  options_.replicas = {1, 1, 1, 1};
  options_.regions.boundary_bytes = 100;
  regions_ = {{"w1", "eu"}, {"w2", "us"}, {"w3", "eu"}, {"w4", "us"}};
  Create();
  for (const char* name : {"w1", "w2", "w3", "w4"}) Come(name);
  std::map<std::uint64_t, std::string> by_stage;
  for (const char* name : {"w1", "w2", "w3", "w4"}) {
    by_stage[Told<Welcome>(name).at(0).stage.value] = regions_.at(name);
  }
  EXPECT_EQ(by_stage[0], by_stage[1]);
  EXPECT_EQ(by_stage[2], by_stage[3]);
}

TEST_F(CoordinatorStartTest, TrainingStartsWhenAllThatWereAskedForHaveLoaded) {
  options_.replicas = {2, 1};
  Create();
  for (const char* name : {"a1", "b1"}) Come(name);
  for (const char* name : {"a1", "b1"}) Load(name);
  EXPECT_EQ(state(), "Waiting");
  Come("a2");
  EXPECT_EQ(state(), "Waiting");
  EXPECT_TRUE(Issued().empty());
  Load("a2");
  EXPECT_EQ(state(), "Training");
  EXPECT_EQ(Told<Roster>("a2").at(0).members.size(), 3u);
  EXPECT_FALSE(Issued().empty());
}

TEST_F(CoordinatorStartTest, EverybodyKnowsTheRosterBeforeTheFirstMicrobatch) {
  StartTraining({1, 1});
  for (const Order& order : orders()) {
    if (std::holds_alternative<order::Issue>(order)) break;
    const auto* tell = std::get_if<order::Tell>(&order);
    if (tell != nullptr && std::holds_alternative<Roster>(tell->message)) return;
  }
  FAIL() << "a microbatch was issued before the roster";
}

TEST_F(CoordinatorStartTest, AWelcomeNamesTheStateToBeginWith) {
  options_.replicas = {1};
  options_.generation = Generation(3);
  options_.first_version = Version(40);
  options_.resume_uri = "folder/40";
  options_.resume_manifest = {.high = 4, .low = 2};
  Create();
  Come("a1");
  const Welcome welcome = Told<Welcome>("a1").at(0);
  EXPECT_EQ(welcome.generation, Generation(3));
  EXPECT_EQ(welcome.version, Version(40));
  EXPECT_EQ(welcome.checkpoint_uri, "folder/40");
  EXPECT_EQ(welcome.manifest, (Digest{.high = 4, .low = 2}));
  EXPECT_TRUE(welcome.donors.empty());
}

TEST_F(CoordinatorStartTest, AWorkerThatSpeaksAnotherProtocolIsRefusedForGood) {
  options_.replicas = {1};
  Create();
  Hello hello = HelloOf("a1");
  hello.protocol_version = kProtocolVersion + 1;
  Say("a1", hello);
  EXPECT_TRUE(Happened("WorkerRefused"));
  EXPECT_FALSE(Told<Shutdown>("a1").at(0).rejoin);
  EXPECT_TRUE(Told<Welcome>("a1").empty());
}

TEST_F(CoordinatorStartTest, AnExactJobTakesWorkersOfOneNumericClassOnly) {
  options_.replicas = {2};
  options_.exact = true;
  Create();
  Come("a1");
  Hello hello = HelloOf("a2");
  hello.numeric_class = "nearly so";
  Say("a2", hello);
  EXPECT_TRUE(Happened("WorkerRefused"));
  EXPECT_TRUE(Told<Welcome>("a2").empty());
  Come("a3");
  EXPECT_FALSE(Told<Welcome>("a3").empty());
}

TEST_F(CoordinatorStartTest, AnExactJobTakesWorkersThatDifferOnlyInWhatItDoesNotDo) {
  options_.replicas = {2};
  options_.exact = true;
  options_.probes = {"FP32", "Int8"};
  Create();
  const auto come = [this](const std::string& name, const std::string& numeric_class) {
    Hello hello = HelloOf(name);
    hello.numeric_class = numeric_class;
    Say(name, hello);
    return !Told<Welcome>(name).empty();
  };
  EXPECT_TRUE(come("a1", "cpu=AVX2 probe:FP32=1 probe:BF16=2"));
  EXPECT_FALSE(come("a2", "cpu=AVX2 probe:FP32=3 probe:BF16=2"));
  EXPECT_FALSE(come("a3", "cpu=AVX512 probe:FP32=1 probe:BF16=2"));
  EXPECT_TRUE(come("a4", "cpu=AVX2 probe:FP32=1 probe:BF16=4"));
}

TEST_F(CoordinatorStartTest, AJobThatIsNotExactTakesAllClasses) {
  options_.replicas = {2};
  Create();
  Come("a1");
  Hello hello = HelloOf("a2");
  hello.numeric_class = "nearly so";
  Say("a2", hello);
  EXPECT_FALSE(Told<Welcome>("a2").empty());
}

TEST_F(CoordinatorStartTest, ReplicasThatBeginWithDifferentWeightsEndTheJob) {
  options_.replicas = {2};
  Create();
  Come("a1");
  Come("a2");
  Load("a1", {1, 1});
  Load("a2", {2, 2});
  ASSERT_TRUE(Finished());
  EXPECT_FALSE(Finished()->succeeded);
}

TEST_F(CoordinatorStartTest, WhoIsLostBeforeTheStartIsReplacedByOneThatWaits) {
  options_.replicas = {1, 1};
  Create();
  for (const char* name : {"a1", "b1", "spare"}) Come(name);
  EXPECT_TRUE(Told<Welcome>("spare").empty());
  Lose("b1");
  EXPECT_EQ(Told<Welcome>("spare").at(0).stage, StageIndex(1));
  Load("a1");
  Load("spare");
  EXPECT_EQ(state(), "Training");
}

TEST_F(CoordinatorStartTest, WhoDoesNotLoadDoesNotKeepTheJobFromStarting) {
  options_.replicas = {1, 1};
  Create();
  for (const char* name : {"a1", "b1", "spare"}) Come(name);
  Load("a1");
  Pass(options_.patience.load);
  EXPECT_EQ(Told<Welcome>("spare").size(), 1u);
}

TEST_F(CoordinatorStartTest, AWorkerThatWasStartedAgainIsAnotherOne) {
  options_.replicas = {1, 1};
  Create();
  Come("a1", 1);
  Come("a1", 1);  // the same, over a second connection
  EXPECT_EQ(Told<Welcome>("a1").size(), 1u);
  Come("a1", 2);
  EXPECT_TRUE(Happened("WorkerLost"));
  EXPECT_EQ(Told<Welcome>("a1").size(), 2u);
}

TEST_F(CoordinatorStartTest, WhoServesAJobOfWhichThisTrainerKnowsNothingComesBackEmpty) {
  options_.replicas = {1};
  Create();
  Hello hello = HelloOf("a1");
  hello.serving = true;
  Say("a1", hello);
  EXPECT_TRUE(Told<Shutdown>("a1").at(0).rejoin);
}

TEST_F(CoordinatorStartTest, ATrainerThatHearsOfAHigherTermLeavesEverythingAsItIs) {
  StartTraining({1, 1});
  Listen();
  Hello hello = HelloOf("new");
  hello.term = Term(2);
  Say("new", hello);
  ASSERT_TRUE(Finished());
  EXPECT_TRUE(Finished()->superseded);
  EXPECT_EQ(orders().size(), 1u);  // no worker is told anything
}

TEST_F(CoordinatorStartTest, AWorkersFailureThatCannotBeMendedEndsTheJob) {
  StartTraining({1, 1});
  Listen();
  Say("a1", Failure{"the model has no such layer", FailureClass::kBadConfig});
  ASSERT_TRUE(Finished());
  EXPECT_NE(Finished()->reason.find("no such layer"), std::string::npos);
  EXPECT_EQ(WhoWasTold<Shutdown>(), (std::set<std::string>{"a1", "b1"}));
  EXPECT_EQ(state(), "Failed");
}

TEST_F(CoordinatorStartTest, AnErrorOfOneDeviceCostsOneWorkerAndThatOfThreeTheJob) {
  StartTraining({4, 1});
  const Failure error{"an illegal memory access"};
  for (const std::string name : {"a1", "a2"}) {
    Listen();
    Say(name, error);
    EXPECT_FALSE(Finished());
    EXPECT_TRUE(Happened("WorkerLost"));
    CompleteStep();
  }
  Say("a3", error);
  ASSERT_TRUE(Finished());
  EXPECT_EQ(Finished()->failure_class, FailureClass::kWorkerFailed);
}

TEST_F(CoordinatorStartTest, WhatStrangersSayIsIgnored) {
  StartTraining({1, 1});
  Listen();
  Say("eve", Failure{"everything"});
  Say("eve", Ready{});
  EXPECT_TRUE(orders().empty());
}

}  // namespace
}  // namespace swarm::protocol
