// Workers that cannot reach each other while both reach the trainer.
#include <gmock/gmock.h>

#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

using testing::ElementsAre;

const WorkerId kA1("a1"), kA2("a2"), kB1("b1"), kB2("b2");

class ReachabilityTest : public CoordinatorTest {
 protected:
  std::vector<Detour> LastDetours(const std::string& name) {
    const auto told = Told<Detours>(name);
    EXPECT_FALSE(told.empty()) << name << " was told of no detours";
    return told.empty() ? std::vector<Detour>() : told.back().detours;
  }
  /// The worker reports, and the coordinator has had the time to plan.
  void Report(const std::string& name, const std::vector<WorkerId>& unheard) {
    Say(name, Unheard{unheard});
    Pass(milliseconds(100));
  }
  /// Time passes in which the workers repeat their reports.
  void PassWith(const std::map<std::string, std::vector<WorkerId>>& reports, Duration duration) {
    for (Duration passed{}; passed < duration; passed += seconds(1)) {
      for (const auto& [name, peers] : reports) {
        if (coordinator().Status().state == JobState::kTraining) Say(name, Unheard{peers});
      }
      Pass(seconds(1));
    }
  }
};

TEST_F(ReachabilityTest, APairThatIsBrokenGoesThroughAThirdWorkerAndNoneIsEvicted) {
  StartTraining({2, 1});
  Listen();
  Report("b1", {kA1});
  EXPECT_TRUE(Happened("PairBroken"));
  EXPECT_THAT(LastDetours("a1"), ElementsAre(Detour{kB1, kA2}));
  EXPECT_THAT(LastDetours("b1"), ElementsAre(Detour{kA1, kA2}));
  EXPECT_TRUE(Told<Detours>("a2").empty());
  Pass(seconds(30));
  EXPECT_FALSE(Happened("WorkerLost"));
  CompleteStep();
}

TEST_F(ReachabilityTest, APairThatHealsGoesTheDirectWayAgain) {
  StartTraining({2, 1});
  Report("b1", {kA1});
  Report("a1", {kB1});
  Listen();
  Report("b1", {});
  EXPECT_TRUE(Told<Detours>("b1").empty()) << "a1 does not hear b1 yet";
  Report("a1", {});
  EXPECT_THAT(LastDetours("a1"), ElementsAre());
  EXPECT_THAT(LastDetours("b1"), ElementsAre());
}

TEST_F(ReachabilityTest, WhatWasLostOnTheWayIsTakenBackAtOnce) {
  options_.microbatches = 1;
  StartTraining({1, 2});
  Forward(0, 0);
  const std::string owner = Owner(0, 1);
  const TaskKey key = Key(0, 1);
  Pass(kDetourTime);
  Listen();
  Say(owner, Unheard{{kA1}});
  Pass(milliseconds(100));
  ASSERT_EQ(Told<Revoke>(owner).size(), 1u);
  Say(owner, Revoked{key, false});
  EXPECT_NE(Owner(0, 1), owner) << "the other replica is within reach";
  CompleteStep();
}

TEST_F(ReachabilityTest, AnOutputThatHasArrivedIsNotTakenBack) {
  options_.microbatches = 1;
  StartTraining({1, 2});
  for (const std::uint64_t s : {0, 1}) Forward(0, s);
  const std::string owner = Owner(0, 1);
  Pass(kDetourTime);
  Listen();
  Say(owner, Unheard{{kA1}});
  Pass(milliseconds(100));
  EXPECT_TRUE(Told<Revoke>(owner).empty());
}

TEST_F(ReachabilityTest, AGradientThatWasLostIsTakenBack) {
  options_.microbatches = 1;
  StartTraining({2, 1});
  for (const std::uint64_t s : {0, 1}) Forward(0, s);
  Fold(0, 1);
  const std::string owner = Owner(0, 0);
  Pass(kDetourTime);
  Listen();
  Say(owner, Unheard{{kB1}});
  Pass(milliseconds(100));
  EXPECT_EQ(Told<Revoke>(owner).size(), 1u);
}

TEST_F(ReachabilityTest, RoutesAvoidBrokenPairsWhereTheyCan) {
  options_.microbatches = 8;
  StartTraining({1, 2});
  CompleteStep();
  Say("b1", Unheard{{kA1}});
  CompleteStep();
  for (std::uint64_t m = 0; m < 2; ++m) EXPECT_EQ(Owner(m, 1), "b2");
}

TEST_F(ReachabilityTest, ASumOfAPairThatBreaksIsAskedForAgainWithoutAnEviction) {
  StartTraining({4});
  FoldAll();
  const Attempt k = Asked("a1", 0).k;
  Listen();
  Pass(kDetourTime);
  Say("a1", Unheard{{kA2}});
  Pass(milliseconds(100));
  EXPECT_GT(Asked("a1", 0).k, k);
  EXPECT_EQ(Asked("a1", 0).participants.size(), 4u);
  EXPECT_FALSE(Happened("WorkerLost"));
  Reduce();
  Apply();
  EXPECT_EQ(step(), 1u);
}

TEST_F(ReachabilityTest, WhereThereIsNoWayAroundTheWorkerThatMostDoNotReachGoes) {
  StartTraining({3, 2});
  Listen();
  // None of the others hears a1, and a1 none of them.
  const std::map<std::string, std::vector<WorkerId>> reports{
      {"a1", {kA2, WorkerId("a3"), kB1, kB2}},
      {"a2", {kA1}},
      {"a3", {kA1}},
      {"b1", {kA1}},
      {"b2", {kA1}}};
  PassWith(reports, seconds(4));
  const auto evicted = coordinator().Status().evicted;
  ASSERT_EQ(evicted.size(), 1u);
  EXPECT_EQ(evicted[0].worker, kA1);
  EXPECT_EQ(evicted[0].cause, EvictionCause::kUnreachable);
  CompleteStep();
}

TEST_F(ReachabilityTest, WhoWasEvictedForThatIsHeldOffWhenItComesBack) {
  StartTraining({3, 2});
  PassWith({{"a1", {kA2, WorkerId("a3"), kB1, kB2}}}, seconds(4));
  Come("a1", 2);
  Listen();
  Pass(milliseconds(100));
  EXPECT_TRUE(WhoWasTold<PinState>().empty());
  Pass(seconds(10));
  EXPECT_FALSE(WhoWasTold<PinState>().empty());
}

TEST_F(ReachabilityTest, ForWhoIsHeldOffWithoutAStateReplicasKeepNothing) {
  StartTraining({3, 2});
  for (int i = 0; i < 2; ++i) CompleteStep();
  PassWith({{"a1", {kA2, WorkerId("a3"), kB1, kB2}}}, seconds(4));
  Listen();
  for (int i = 0; i < 2; ++i) CompleteStep();
  EXPECT_LE(Told<Commit>("a2").back().keep_from, Step(2)) << "it may come back with its state";
  Come("a1", 2);
  CompleteStep();
  EXPECT_GT(Told<Commit>("a2").back().keep_from, Step(2)) << "it was started again";
}

TEST_F(ReachabilityTest, WhereNoDepartureWouldHelpTheJobWaitsAndSaysForWhat) {
  StartTraining({1, 1});
  Listen();
  PassWith({{"a1", {kB1}}}, seconds(30));
  EXPECT_FALSE(Happened("WorkerLost"));
  EXPECT_EQ(coordinator().Status().waiting_for, "a way between a1 and b1");
  Report("a1", {});
  EXPECT_EQ(coordinator().Status().waiting_for, "");
}

TEST_F(ReachabilityTest, AThirdWorkerThatGoesIsReplacedByAnother) {
  StartTraining({2, 2});
  Report("a1", {kB1});
  const WorkerId third = LastDetours("a1").at(0).via;
  Listen();
  Lose(third.value);
  Pass(milliseconds(100));
  ASSERT_EQ(LastDetours("a1").size(), 1u);
  EXPECT_NE(LastDetours("a1").at(0).via, third);
}

TEST_F(ReachabilityTest, DetoursThatWorkersForgetInARollbackAreOrderedAgain) {
  StartTraining({1, 1, 1});
  Report("a1", {kB1});
  Lose("c1");
  Come("c1", 2);
  BeginGeneration(1, 0);
  for (const char* name : {"a1", "b1", "c1"}) Load(name);
  Listen();
  Report("a1", {kB1});
  EXPECT_THAT(LastDetours("a1"), ElementsAre(Detour{kB1, WorkerId("c1")}));
}

TEST_F(ReachabilityTest, AWorkerThatIsGoneIsInNoBrokenPair) {
  StartTraining({2, 2});
  Report("a1", {kB1});
  Lose("b1");
  Come("b1", 2);
  Listen();
  Pass(seconds(1));
  EXPECT_THAT(LastDetours("a1"), ElementsAre());
}

TEST_F(ReachabilityTest, StagesThatExchangeNothingNeedNoDetour) {
  StartTraining({1, 1, 1});
  Listen();
  PassWith({{"a1", {WorkerId("c1")}}}, seconds(5));
  EXPECT_TRUE(WhoWasTold<Detours>().empty());
  EXPECT_FALSE(Happened("WorkerLost"));
}

}  // namespace
}  // namespace swarm::protocol
