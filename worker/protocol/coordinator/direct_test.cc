// The status that observers get, and an operator's orders to leave or to move.
#include <gmock/gmock.h>

#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CoordinatorDirectTest : public CoordinatorTest {
 protected:
  CoordinatorDirectTest() {
    options_.microbatches = 3;
    options_.unix_epoch = 1'000'000;
  }

  DirectReply SayDirect(Direct direct, const std::string& from = "operator") {
    Listen();
    Say(from, direct);
    const auto replies = Told<DirectReply>(from);
    EXPECT_EQ(replies.size(), 1u);
    return replies.empty() ? DirectReply() : replies.front();
  }
  DirectReply Drain(const std::string& name) {
    return SayDirect({.leader_term = 1, .drain = {WorkerId(name)}});
  }
  DirectReply Move(const std::string& name, std::uint64_t to) {
    return SayDirect({.leader_term = 1, .moves = {{WorkerId(name), StageIndex(to)}}});
  }
  /// Finishes the open work, and lets the parcel, if there is one, arrive.
  void HandOverAll(const std::string& name, std::uint64_t stage) {
    FoldAll();
    for (const HandOver& order : Told<HandOver>(name)) {
      std::vector<Contribution> sums;
      for (std::uint64_t m = 0; m < options_.microbatches; ++m) {
        if (Owner(m, stage) == name) sums.push_back({Microbatch(m), Key(m, stage).attempt, 0});
      }
      Say(order.heir.value, ParcelHeld{Generation(0), order.step, WorkerId(name), sums});
    }
  }
  JobStatus Status() { return coordinator().Status(); }
  std::string StateOf(const std::string& name) {
    static const std::map<WorkerState, std::string> kNames = {{WorkerState::kLoading, "Loading"},
                                                              {WorkerState::kJoining, "Joining"},
                                                              {WorkerState::kReady, "Ready"},
                                                              {WorkerState::kLeaving, "Leaving"},
                                                              {WorkerState::kMoving, "Moving"}};
    for (const StageStatus& stage : Status().stages) {
      for (const auto& worker : stage.workers) {
        if (worker.id.value == name) return kNames.at(worker.state);
      }
    }
    return "";
  }
};

TEST_F(CoordinatorDirectTest, WhoIsToLeaveHandsOverAndIsDismissedForGood) {
  StartTraining({2, 1});
  const DirectReply reply = Drain("a1");
  EXPECT_TRUE(reply.accepted);
  EXPECT_EQ(reply.why, "");
  EXPECT_EQ(StateOf("a1"), "Leaving");
  HandOverAll("a1", 0);
  ASSERT_EQ(Told<Shutdown>("a1").size(), 1u);
  EXPECT_FALSE(Told<Shutdown>("a1")[0].rejoin);
  EXPECT_EQ(Status().counts.leaves, 1u);
  EXPECT_EQ(Status().counts.evictions, 0u);
  EXPECT_TRUE(Drain("a1").accepted) << "it is gone already: nothing is wrong with that";
}

TEST_F(CoordinatorDirectTest, TheLastOfAStageServesUntilAnotherCanHoweverLongThatTakes) {
  StartTraining({2, 1});
  Drain("b1");
  for (int step = 0; step < 3; ++step) {
    CompleteStep();
    Pass(seconds(600));
  }
  EXPECT_EQ(step(), 3u);
  EXPECT_THAT(Told<Shutdown>("b1"), IsEmpty());
}

TEST_F(CoordinatorDirectTest, ADrainedWorkerThatIsThenToldToEndHasThatDeadline) {
  StartTraining({2, 1});
  Drain("b1");
  Say("b1", Leaving{5});
  Pass(seconds(6));
  EXPECT_TRUE(Happened("StageLost"));
}

TEST_F(CoordinatorDirectTest, WhoHasNotServedYetIsDismissedAtOnce) {
  StartTraining({2, 1});
  Come("c9");
  EXPECT_EQ(StateOf("c9"), "Joining");
  Drain("c9");
  EXPECT_EQ(Told<Shutdown>("c9").size(), 1u);
  EXPECT_EQ(StateOf("c9"), "");
}

TEST_F(CoordinatorDirectTest, AMoveIsALeaveThatComesBack) {
  StartTraining({3, 1});
  EXPECT_EQ(Move("a1", 1).why, "");
  EXPECT_EQ(StateOf("a1"), "Moving");
  EXPECT_THAT(Status().balance.moving, ElementsAre(StageMove{WorkerId("a1"), StageIndex(1)}));
  HandOverAll("a1", 0);
  ASSERT_EQ(Told<Shutdown>("a1").size(), 1u);
  EXPECT_TRUE(Told<Shutdown>("a1")[0].rejoin);
  EXPECT_THAT(Status().balance.moving, ElementsAre(StageMove{WorkerId("a1"), StageIndex(1)}));
  Listen();
  Come("a1", 2);
  EXPECT_EQ(WhoWasTold<PinState>(), std::set<std::string>{"b1"});
  EXPECT_EQ(Status().counts.moves, 1u);
}

TEST_F(CoordinatorDirectTest, MovesThatWouldEmptyAStageAreNotMade) {
  StartTraining({2, 2});
  EXPECT_EQ(Move("a1", 1).why, "");
  const DirectReply reply = Move("a2", 1);
  EXPECT_TRUE(reply.accepted);
  EXPECT_THAT(reply.why, HasSubstr("a2 is the last that stays at stage 0"));
  EXPECT_EQ(StateOf("a2"), "Ready");
}

TEST_F(CoordinatorDirectTest, WhatCannotBeDoneIsNamedAndTheRestIsDone) {
  StartTraining({3, 1});
  const DirectReply reply = SayDirect({.leader_term = 4,
                                       .number = 17,
                                       .drain = {WorkerId("nobody"), WorkerId("a1")},
                                       .moves = {{WorkerId("a2"), StageIndex(7)}}});
  EXPECT_TRUE(reply.accepted);
  EXPECT_EQ(reply.number, 17u);
  EXPECT_EQ(reply.leader_term, 4u);
  EXPECT_THAT(reply.why, HasSubstr("nobody is not here"));
  EXPECT_THAT(reply.why, HasSubstr("there is no stage 7"));
  EXPECT_EQ(StateOf("a1"), "Leaving");
}

TEST_F(CoordinatorDirectTest, OfTwoLeadersTheLaterOneCounts) {
  StartTraining({3, 1});
  EXPECT_TRUE(SayDirect({.leader_term = 5}).accepted);
  const DirectReply stale =
      SayDirect({.leader_term = 4, .drain = {WorkerId("a1")}}, "operator/old");
  EXPECT_FALSE(stale.accepted);
  EXPECT_EQ(stale.leader_term, 5u);
  EXPECT_EQ(StateOf("a1"), "Ready");
  EXPECT_FALSE(SayDirect({.leader_term = 0}).accepted);
  EXPECT_TRUE(SayDirect({.leader_term = 5}).accepted) << "the same leader goes on";
  EXPECT_EQ(Status().leader_term, 5u);
}

TEST_F(CoordinatorDirectTest, NobodyElseMayDirect) {
  StartTraining({3, 1});
  for (const char* name : {"observer", "observer/operator", "a2", "operators", "eve"}) {
    const DirectReply reply = SayDirect({.leader_term = 9, .drain = {WorkerId("a1")}}, name);
    EXPECT_FALSE(reply.accepted) << name;
    EXPECT_EQ(reply.leader_term, 0u) << name;
  }
  EXPECT_EQ(StateOf("a1"), "Ready");
}

TEST_F(CoordinatorDirectTest, AllHearOfAWorkerWhosePodIsGoneAndItGetsNoPlaceAgain) {
  StartTraining({2, 1});
  Come("spare-w2");
  const Retired retired{"job-w", 8, {3}};
  EXPECT_TRUE(SayDirect({.leader_term = 1, .retired = retired}).accepted);
  EXPECT_THAT(WhoWasTold<Retire>(), ElementsAre("a1", "a2", "b1", "spare-w2"));
  ASSERT_EQ(All<order::Retire>().size(), 1u);
  EXPECT_EQ(All<order::Retire>()[0].workers, retired);
  EXPECT_EQ(Status().retired, 7u);

  Come("job-w7");
  ASSERT_EQ(Told<Shutdown>("job-w7").size(), 1u);
  EXPECT_THAT(Told<Shutdown>("job-w7")[0].reason, HasSubstr("its pod is gone"));
  EXPECT_FALSE(Told<Shutdown>("job-w7")[0].rejoin);
  Come("job-w3");
  EXPECT_THAT(Told<Shutdown>("job-w3"), IsEmpty());
  ASSERT_EQ(Told<Retire>("job-w3").size(), 1u) << "who comes later hears of them too";
  EXPECT_EQ(Told<Retire>("job-w3")[0].workers, retired);

  EXPECT_TRUE(SayDirect({.leader_term = 1, .retired = {"job-w", 7, {3}}}).accepted);
  EXPECT_THAT(WhoWasTold<Retire>(), IsEmpty()) << "an old list changes nothing";
  EXPECT_EQ(Status().retired, 7u);
  EXPECT_FALSE(SayDirect({.leader_term = 1, .retired = {"a", 9, {}}}, "a2").accepted);
  EXPECT_EQ(Status().retired, 7u);
}

TEST_F(CoordinatorDirectTest, TheTrainerBalancesOnlyWhileNoOperatorIsHeard) {
  options_.balance = BalancePolicy::kEvent;
  options_.patience.first_microbatch = std::chrono::hours(10);
  StartTraining({4, 2});
  Say("operator", Observe{});
  Pass(milliseconds(100));
  EXPECT_TRUE(Status().balance.by_operator);
  Lose("b1");
  for (int i = 0; i < 5; ++i) {
    Pass(seconds(20));
    EXPECT_FALSE(Happened("WorkerMoves"));
    Say("operator", Observe{});
  }
  for (int i = 0; i < 3; ++i) Pass(seconds(20));
  EXPECT_FALSE(Status().balance.by_operator);
  EXPECT_TRUE(Happened("WorkerMoves"));
}

TEST_F(CoordinatorDirectTest, AnObserverChangesNothing) {
  options_.balance = BalancePolicy::kEvent;
  StartTraining({4, 2});
  Say("observer/1", Observe{});
  Lose("b1");
  Pass(milliseconds(100));
  EXPECT_TRUE(Happened("WorkerMoves"));
}

TEST_F(CoordinatorDirectTest, AnEmptiedStageIsStaffedWhateverAnOperatorIsAbout) {
  options_.balance = BalancePolicy::kEvent;
  StartTraining({3, 1});
  Say("operator", Observe{});
  Listen();
  Lose("b1");
  EXPECT_EQ(All<order::BeginGeneration>().size(), 1u);
}

TEST_F(CoordinatorDirectTest, LossesAreToldWithKindAndTimeAndCountedUntilTheyAreRecoveredFrom) {
  StartTraining({2, 2});
  FoldAll();
  Lose("a1");
  ASSERT_EQ(Status().evicted.size(), 1u);
  const Eviction eviction = Status().evicted.front();
  EXPECT_EQ(eviction.number, 1u);
  EXPECT_EQ(eviction.worker.value, "a1");
  EXPECT_EQ(eviction.cause, EvictionCause::kDisconnected);
  EXPECT_EQ(eviction.time, 1'000'000 + 3600);
  EXPECT_GT(Status().counts.replays, 0u);
  EXPECT_EQ(Status().counts.recoveries, 0u);
  CompleteStep();
  EXPECT_EQ(Status().counts.recoveries, 1u);
  for (std::uint64_t i = 0; i < 200; ++i) {
    Come("c" + std::to_string(i));
    Lose("c" + std::to_string(i));
  }
  EXPECT_EQ(Status().counts.evictions, 201u);
  EXPECT_LE(Status().evicted.size(), 64u);
  EXPECT_EQ(Status().evicted.back().number, 201u);
}

TEST_F(CoordinatorDirectTest, WhatTheJobWaitsForIsSaid) {
  options_.replicas = {2, 1};
  Create();
  EXPECT_EQ(Status().waiting_for, "workers: stage 0 lacks 2, stage 1 lacks 1");
  for (const char* name : {"a1", "a2", "b1"}) Come(name);
  EXPECT_EQ(Status().waiting_for, "workers that load their state");
  EXPECT_EQ(StateOf("a1"), "Loading");
  for (const char* name : {"a1", "a2", "b1"}) Load(name);
  EXPECT_EQ(Status().waiting_for, "");
  for (const char* name : {"a1", "a2"}) Lose(name);
  EXPECT_EQ(Status().waiting_for, "workers: stage 0 lacks 1");
  EXPECT_EQ(state(), "Waiting");
}

TEST_F(CoordinatorDirectTest, TheLastCheckpointAndTheLastErrorAreTold) {
  options_.checkpoint_uri = "somewhere";
  options_.checkpoint_interval_steps = 1;
  StartTraining({1, 1});
  EXPECT_EQ(Status().checkpoint.version, Version(0));
  Coordinator& c = coordinator();
  const auto write = [&] {
    CompleteStep();
    const Version version(step());
    for (std::uint64_t s = 0; s < 2; ++s) {
      Say(s == 0 ? "a1" : "b1", CheckpointWritten{Generation(0), version, StageIndex(s), {}, {}});
    }
    return version;
  };
  Publish(write());
  EXPECT_EQ(c.Status().checkpoint.version, Version(1));
  EXPECT_EQ(c.Status().checkpoint.time, 1'000'000 + 3600);
  Publish(write(), "the bucket is gone");
  EXPECT_EQ(c.Status().checkpoint.version, Version(1));
  EXPECT_EQ(c.Status().checkpoint.failures, 1u);
  EXPECT_EQ(c.Status().checkpoint.error, "the bucket is gone");
  Publish(write());
  EXPECT_EQ(c.Status().checkpoint.failures, 0u);
  EXPECT_EQ(c.Status().checkpoint.error, "");
}

TEST_F(CoordinatorDirectTest, AWorkerWithoutMemoryIsALossAndAWrongModelTheEnd) {
  StartTraining({2, 2});
  Say("a1", Failure{"no room for stage 0", FailureClass::kDeviceMemory});
  EXPECT_FALSE(Finished());
  EXPECT_EQ(Status().evicted.back().cause, EvictionCause::kFailed);
  Say("a2", Failure{"403", FailureClass::kStorageRefused});
  ASSERT_TRUE(Finished());
  EXPECT_EQ(Finished()->failure_class, FailureClass::kStorageRefused);
  EXPECT_EQ(Status().state, JobState::kFailed);
  EXPECT_EQ(Status().failure_class, FailureClass::kStorageRefused);
}

TEST_F(CoordinatorDirectTest, AStoppedTrainerCanLeaveTheWorkersToTheNextOne) {
  options_.keep_workers = true;
  StartTraining({1, 1});
  Stop();
  CompleteStep();
  ASSERT_TRUE(Finished());
  EXPECT_TRUE(Finished()->stopped_early);
  EXPECT_THAT(WhoWasTold<Shutdown>(), IsEmpty());
}

TEST_F(CoordinatorDirectTest, AStopThatTakesTooLongIsCutShort) {
  options_.checkpoint_uri = "somewhere";
  StartTraining({1, 1});
  Stop();
  CompleteStep();
  EXPECT_FALSE(Finished()) << "the checkpoint is not there yet";
  EXPECT_EQ(Status().waiting_for, "the last checkpoint");
  const Orders end = coordinator().OnStopOverdue();
  EXPECT_TRUE(std::any_of(end.begin(), end.end(), [](const Order& order) {
    return std::holds_alternative<order::Finish>(order);
  }));
}

TEST_F(CoordinatorDirectTest, ASupersededTrainerIsNoSuccessAndNoFailureOfTheJob) {
  StartTraining({1, 1});
  Listen();
  Hello hello = HelloOf("a1", 2);
  hello.term = Term(3);
  Say("a1", hello);
  ASSERT_TRUE(Finished());
  EXPECT_TRUE(Finished()->superseded);
  EXPECT_EQ(Status().state, JobState::kSuperseded);
  EXPECT_THAT(WhoWasTold<Shutdown>(), IsEmpty());
}

}  // namespace
}  // namespace swarm::protocol
