// Workers that move from a stage that has many to one that has few.
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

class CoordinatorBalanceTest : public CoordinatorTest {
 protected:
  CoordinatorBalanceTest() {
    options_.balance = BalancePolicy::kPeriodic;
    options_.balance_period = seconds(1);
    options_.microbatches = 3;
  }
  /// Begins with too many workers at the first stage. Returns the worker that is to move.
  std::string StartAndMove(std::vector<std::uint64_t> replicas) {
    StartTraining(std::move(replicas));
    for (int i = 0; i < 2; ++i) Pass(seconds(1));
    return Mover();
  }
  /// The first worker that was told to move since the last Listen.
  std::string Mover() {
    for (const order::Event& event : All<order::Event>()) {
      if (event.kind == EventKind::kWorkerMoves) return event.text.substr(0, event.text.find(' '));
    }
    ADD_FAILURE() << "no worker moves";
    return "a1";
  }
  /// Finishes the open work, and lets the parcel, if there is one, arrive.
  void LetGo(const std::string& name, std::uint64_t stage = 0) {
    FoldAll();
    for (const HandOver& order : Told<HandOver>(name)) {
      std::vector<Contribution> sums;
      for (std::uint64_t m = 0; m < options_.microbatches; ++m) {
        if (Owner(m, stage) == name) sums.push_back({Microbatch(m), Key(m, stage).attempt, 0});
      }
      Say(order.heir.value, ParcelHeld{Generation(0), order.step, WorkerId(name), sums});
    }
  }
};

TEST_F(CoordinatorBalanceTest, AMoveIsALeaveAndAJoinOfTheOtherStage) {
  const std::string mover = StartAndMove({3, 1});
  LetGo(mover);
  EXPECT_TRUE(Told<Shutdown>(mover).at(0).rejoin);
  Reduce();
  Apply();
  EXPECT_EQ(step(), 1u);
  Listen();
  Come(mover, 2);
  EXPECT_EQ(WhoWasTold<PinState>(), std::set<std::string>{"b1"});
}

TEST_F(CoordinatorBalanceTest, ALossMakesSomebodyMove) {
  options_.balance = BalancePolicy::kEvent;
  StartTraining({4, 2});
  Pass(milliseconds(100));
  EXPECT_FALSE(Happened("WorkerMoves"));
  Lose("b1");
  Pass(milliseconds(100));
  EXPECT_TRUE(Happened("WorkerMoves"));
}

TEST_F(CoordinatorBalanceTest, AWorkerOfAnotherRegionMovesToAStageInOneRegion) {
  options_.balance = BalancePolicy::kEvent;
  options_.regions.survive_loss = true;
  regions_ = {{"a1", "eu"}, {"a2", "us"}, {"a3", "us"}, {"a4", "us"}, {"b1", "eu"}, {"b2", "us"}};
  StartTraining({4, 2});
  const JobStatus status = coordinator().Status();
  std::set<std::string> last;
  for (const auto& worker : status.stages[1].workers) last.insert(worker.id.value);
  ASSERT_EQ(last, (std::set<std::string>{"a4", "b1"}));
  Lose("a4");
  Listen();
  Pass(milliseconds(100));
  EXPECT_EQ(Mover(), "a2") << "not a1, which stage 0 needs";
}

TEST_F(CoordinatorBalanceTest, StagesInOneRegionAreTold) {
  options_.balance = BalancePolicy::kEvent;
  options_.regions.survive_loss = true;
  regions_ = {{"a1", "eu"}, {"a2", "us"}, {"b1", "eu"}, {"b2", "us"}};
  StartTraining({2, 2});
  Pass(milliseconds(100));
  const JobStatus status = coordinator().Status();
  EXPECT_EQ(status.balance.one_region, "");
  EXPECT_EQ(status.stages[0].workers[0].region, regions_[status.stages[0].workers[0].id.value]);
  EXPECT_FALSE(Happened("RegionsSpread"));
  for (const char* name : {"a2", "b2"}) Lose(name);
  Listen();
  Pass(milliseconds(100));
  EXPECT_TRUE(Happened("RegionsSpread"));
  EXPECT_EQ(coordinator().Status().balance.one_region,
            "stage 0 is in eu alone, stage 1 is in eu alone: all workers are in one region");
  Listen();
  Pass(milliseconds(100));
  EXPECT_FALSE(Happened("RegionsSpread")) << "once is enough";
}

TEST_F(CoordinatorBalanceTest, NoMoveLeavesAStageToOnePod) {
  options_.balance = BalancePolicy::kEvent;
  for (const char* name : {"a2", "a3", "a4"}) pods_[name] = "p";
  StartTraining({4, 2});
  Pass(milliseconds(100));
  Lose("b1");
  Listen();
  Pass(milliseconds(100));
  EXPECT_EQ(Mover(), "a2");
}

TEST_F(CoordinatorBalanceTest, WhoHoldsUpAMicrobatchForOnceIsNotSlow) {
  options_.balance = BalancePolicy::kEvent;
  options_.microbatches = 6;
  StartTraining({3, 2});
  CompleteStep();
  for (std::uint64_t m = 0; m < options_.microbatches; ++m) {
    if (IsIssued(m)) Forward(m, 0);
  }
  // Both of the second stage are charged with the time that these wait.
  for (int i = 0; i < 2; ++i) Pass(seconds(31));
  EXPECT_FALSE(Happened("WorkerMoves"));
}

TEST_F(CoordinatorBalanceTest, WhereAllOfAStageLeaveAnotherComesBeforeTheyGo) {
  options_.balance = BalancePolicy::kEvent;
  StartTraining({3, 2});
  Pass(milliseconds(100));
  for (const char* name : {"b1", "b2"}) Say(name, Leaving{20});
  Pass(milliseconds(100));
  const std::string mover = Mover();
  LetGo(mover);
  Reduce();
  Apply();
  Listen();
  Come(mover, 2);
  EXPECT_EQ(WhoWasTold<PinState>(), (std::set<std::string>{"b1", "b2"}));
  for (const char* name : {"b1", "b2"}) {
    Say(name, StatePinned{Generation(0), Told<PinState>(name).back().version, {5, 5}, {}});
  }
  Load(mover, {5, 5});
  for (const std::string name : {"b1", "b2"}) {
    EXPECT_TRUE(Told<Shutdown>(name).empty());
    LetGo(name, 1);
    ASSERT_EQ(Told<Shutdown>(name).size(), 1u);
    EXPECT_FALSE(Told<Shutdown>(name)[0].rejoin);
  }
  EXPECT_FALSE(Happened("StageLost"));
}

TEST_F(CoordinatorBalanceTest, OneMovesAtATime) {
  StartAndMove({5, 1});
  Listen();
  for (int i = 0; i < 5; ++i) Pass(seconds(1));
  EXPECT_FALSE(Happened("WorkerMoves"));
}

TEST_F(CoordinatorBalanceTest, TheLastReplicaOfAStageStays) {
  StartTraining({1, 1});
  for (int i = 0; i < 5; ++i) Pass(seconds(1));
  EXPECT_FALSE(Happened("WorkerMoves"));
}

TEST_F(CoordinatorBalanceTest, WhoIsAboutToMoveIsThereWhenAStageIsLost) {
  StartAndMove({3, 1});
  Listen();
  Lose("b1");
  EXPECT_EQ(All<order::BeginGeneration>().size(), 1u);
  BeginGeneration(1, 0);
  EXPECT_EQ(WhoWasTold<Rollback>(), (std::set<std::string>{"a1", "a2", "a3"}));
  for (const char* name : {"a1", "a2", "a3"}) Load(name);
  EXPECT_EQ(state(), "Training");
}

}  // namespace
}  // namespace swarm::protocol
