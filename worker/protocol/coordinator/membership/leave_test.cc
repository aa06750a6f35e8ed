// Workers that are told to end: they get nothing new, hand over their folds, and go.
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

class CoordinatorLeaveTest : public CoordinatorTest {
 protected:
  CoordinatorLeaveTest() { options_.microbatches = 4; }
  void StartAndFoldHalf() {
    StartTraining({1, 2});
    // One microbatch stays open at the first stage, so that the step does not end.
    for (const std::uint64_t m : {0, 1, 2, 3}) Fold(m, 1);
    for (const std::uint64_t m : {0, 1, 2}) Fold(m, 0);
  }
  /// All microbatches but one, which b2 has.
  void StartWithOneOpenAtB2() {
    StartTraining({1, 2});
    for (const std::uint64_t m : {0, 1, 2, 3}) {
      if (Owner(m, 1) == "b2" && !open_) open_ = m;
      if (m == open_) continue;
      Fold(m, 1);
      Fold(m, 0);
    }
    ASSERT_TRUE(open_.has_value());
    Listen();
  }
  /// Then only the sums that b1 hands over are missing.
  void FinishAtB2() {
    Fold(*open_, 1);
    Fold(*open_, 0);
    Reduce("a1", 0);
    EXPECT_TRUE(Told<protocol::Reduce>("b2").empty());
  }
  std::vector<Contribution> FoldedBy(const std::string& name) {
    std::vector<Contribution> folded;
    for (const std::uint64_t m : {0, 1, 2, 3}) {
      if (Owner(m, 1) == name && m != open_)
        folded.push_back({Microbatch(m), Key(m, 1).attempt, 0});
    }
    return folded;
  }
  void Hold(const std::string& heir, const std::string& donor) {
    Say(heir, ParcelHeld{Generation(0), Step(step()), WorkerId(donor), FoldedBy(donor)});
  }

  std::optional<std::uint64_t> open_;
};

TEST_F(CoordinatorLeaveTest, WhoLeavesGetsNothingMoreAndHandsItsSumsToAnother) {
  StartWithOneOpenAtB2();
  Say("b1", Leaving{30});
  EXPECT_TRUE(Happened("WorkerLeaving"));
  ASSERT_EQ(Told<HandOver>("b1").size(), 1u);
  EXPECT_EQ(Told<HandOver>("b1")[0].heir, WorkerId("b2"));
  EXPECT_EQ(Told<HandOver>("b1")[0].step, Step(0));
  const auto folded = FoldedBy("b1");
  Listen();
  Hold("b2", "b1");
  const RosterChange change = Told<RosterChange>("b2").at(0);
  EXPECT_EQ(change.adoptions, (std::vector<Adoption>{{WorkerId("b1"), WorkerId("b2"), Step(0)}}));
  EXPECT_EQ(change.gone, std::vector{WorkerId("b1")});
  EXPECT_FALSE(Told<Shutdown>("b1").at(0).rejoin);
  EXPECT_TRUE(WhoWasTold<Resend>().empty());  // nothing is computed twice
  FoldAll();
  EXPECT_EQ(Asked("b2", 1).participants.size(), 1u);
  EXPECT_EQ(Asked("b2", 1).claims.microbatches.size(), 4u);
}

TEST_F(CoordinatorLeaveTest, AParcelThatDoesNotComeIsAskedForAgain) {
  StartWithOneOpenAtB2();
  Say("b1", Leaving{1000});
  ASSERT_EQ(Told<HandOver>("b1").size(), 1u);
  FinishAtB2();
  Pass(options_.patience.hand_over);
  ASSERT_EQ(Told<HandOver>("b1").size(), 2u);
  EXPECT_EQ(Told<HandOver>("b1")[1].heir, WorkerId("b2"));
  Hold("b2", "b1");
  EXPECT_FALSE(Told<Shutdown>("b1").at(0).rejoin);
}

TEST_F(CoordinatorLeaveTest, WhoCannotHandOverIsEvictedAndItsWorkDoneAgain) {
  StartWithOneOpenAtB2();
  Say("b1", Leaving{1000});
  FinishAtB2();
  for (int i = 1; i < 16; i *= 2) {
    EXPECT_TRUE(Told<Shutdown>("b1").empty());
    Pass(i * options_.patience.hand_over);
  }
  Pass(seconds(1));
  EXPECT_TRUE(Told<Shutdown>("b1").at(0).rejoin);
  CompleteStep();
}

TEST_F(CoordinatorLeaveTest, WhatIsOpenIsFinishedFirst) {
  StartWithOneOpenAtB2();
  Say("b2", Leaving{30});
  EXPECT_TRUE(Told<HandOver>("b2").empty());
  Fold(*open_, 1);
  EXPECT_TRUE(Told<HandOver>("b2").empty());  // the gradient that it sent may be on its way still
  EXPECT_TRUE(WhoWasTold<protocol::Reduce>().empty());  // no worker freezes sums to be handed over
  Fold(*open_, 0);
  EXPECT_EQ(Told<HandOver>("b2").size(), 1u);
  Listen();
  open_.reset();
  Hold("b1", "b2");
  EXPECT_EQ(WhoWasTold<protocol::Reduce>(), std::set<std::string>{"b1"});
  CompleteStep();
}

TEST_F(CoordinatorLeaveTest, AReduceThatHasBegunComesToItsEndFirst) {
  StartAndFoldHalf();
  Say("b1", Leaving{30});
  EXPECT_TRUE(Told<HandOver>("b1").empty());
  Fold(3, 0);
  Reduce();
  EXPECT_EQ(step(), 1u);
  Pass(milliseconds(100));
  EXPECT_TRUE(Told<Shutdown>("b1").empty());  // its state is not known
  Apply();
  Pass(milliseconds(100));
  EXPECT_FALSE(Told<Shutdown>("b1").empty());  // it has nothing of the next step
}

TEST_F(CoordinatorLeaveTest, SumsThatAreBeingMadeAreNotHandedOver) {
  StartTraining({1, 2});
  FoldAll();
  Say("b1", Leaving{30});
  EXPECT_TRUE(Told<HandOver>("b1").empty());
  Reduce();
  EXPECT_EQ(step(), 1u);
}

TEST_F(CoordinatorLeaveTest, WhoLeavesFinishesItsPartOfAValidation) {
  options_.validation_interval_steps = 1;
  options_.validation_microbatches = 4;
  StartTraining({1, 2});
  CompleteStep();
  Say("b1", Leaving{30});
  EXPECT_TRUE(Told<Shutdown>("b1").empty());
}

TEST_F(CoordinatorLeaveTest, AParcelThatIsNotWhatTheDonorFoldedIsNotAdopted) {
  StartWithOneOpenAtB2();
  Say("b1", Leaving{30});
  Say("b2", ParcelHeld{Generation(0), Step(0), WorkerId("b1"), {}});
  EXPECT_TRUE(WhoWasTold<RosterChange>().empty());
  Hold("a1", "b1");  // nor one that was sent to another worker
  EXPECT_TRUE(WhoWasTold<RosterChange>().empty());
}

TEST_F(CoordinatorLeaveTest, AParcelOfSumsThatAreVoidIsNotAdopted) {
  StartWithOneOpenAtB2();
  Say("b1", Leaving{30});
  Listen();
  Say("b2", Progress{{{.key = Key(*open_, 1), .event = TaskReport::Event::kOverflow}}});
  AnswerVoids("b1");
  AnswerVoids("b2");
  ASSERT_EQ(Told<RosterChange>("b2").size(), 1u);
  EXPECT_TRUE(Told<RosterChange>("b2")[0].adoptions.empty());
}

TEST_F(CoordinatorLeaveTest, ADonorThatIsLostBeforeItsParcelCountsIsReplayed) {
  StartWithOneOpenAtB2();
  Say("b1", Leaving{30});
  Lose("b1");
  EXPECT_TRUE(Told<RosterChange>("b2").at(0).adoptions.empty());
  EXPECT_FALSE(WhoWasTold<Resend>().empty());
  Say("b2", ParcelHeld{Generation(0), Step(0), WorkerId("b1"), {}});
  CompleteStep();
}

TEST_F(CoordinatorLeaveTest, WhereTheHeirIsLostAnotherOneIsChosen) {
  StartTraining({1, 3});
  for (const std::uint64_t m : {0, 1, 2}) {
    Fold(m, 1);
    Fold(m, 0);
  }
  const std::string owner = Owner(3, 1);
  std::vector<std::string> others;
  for (const std::string name : {"b1", "b2", "b3"}) {
    if (name != owner) others.push_back(name);
  }
  open_ = 3;
  Say(others[0], Leaving{30});
  const std::string heir = Told<HandOver>(others[0]).at(0).heir.value;
  const std::string other = heir == owner ? others[1] : owner;
  Listen();
  Lose(heir);
  EXPECT_EQ(Told<HandOver>(others[0]).at(0).heir, WorkerId(other));
}

TEST_F(CoordinatorLeaveTest, WhoseTimeIsOverIsLostAndReplayed) {
  StartWithOneOpenAtB2();
  Say("b1", Leaving{30});
  Pass(seconds(30));
  EXPECT_TRUE(Happened("WorkerLost"));
  EXPECT_FALSE(WhoWasTold<Resend>().empty());
  CompleteStep();
}

TEST_F(CoordinatorLeaveTest, TheLastReplicaOfAStageServesUntilThereIsAnother) {
  StartTraining({1, 1});
  Say("b1", Leaving{30});
  EXPECT_TRUE(Told<HandOver>("b1").empty());
  EXPECT_TRUE(Told<Shutdown>("b1").empty());
  CompleteStep();
}

TEST_F(CoordinatorLeaveTest, TwoThatLeaveAtOnceDoNotHandOverToEachOther) {
  StartTraining({1, 3});
  FoldAll();
  Reduce();
  Fold(0, 1);
  Fold(1, 1);
  Listen();
  Say("b1", Leaving{30});
  Say("b2", Leaving{30});
  for (const std::string name : {"b1", "b2"}) {
    for (const HandOver& order : Told<HandOver>(name)) {
      EXPECT_NE(order.heir, WorkerId("b2"));
      EXPECT_NE(order.heir, WorkerId("b1"));
    }
  }
}

TEST_F(CoordinatorLeaveTest, ALeaverWhoseOnlyHeirIsLostIsLetToWorkAgain) {
  StartWithOneOpenAtB2();
  Say("b1", Leaving{30});
  ASSERT_EQ(Told<HandOver>("b1").size(), 1u);
  Listen();
  Lose("b2");
  EXPECT_EQ(Told<Thaw>("b1").size(), 1u);
  EXPECT_FALSE(WhoWasTold<Resend>().empty());
  CompleteStep();
}

TEST_F(CoordinatorLeaveTest, InDelayedModeItHandsOverBothStepsAndGoesWhenBothAreHeld) {
  options_.delayed = true;
  options_.microbatches = 6;
  StartTraining({1, 2});
  // Of each of the two steps all but one microbatch, which b2 has.
  std::map<std::uint64_t, std::set<std::uint64_t>> open;
  std::map<std::uint64_t, std::vector<Contribution>> folded;  // by b1
  for (const std::uint64_t later : {0, 1}) {
    for (std::uint64_t m = 0; m < options_.microbatches; ++m) {
      if (!IsIssued(m, later)) continue;
      if (open[later].empty() && Owner(m, 1, later) == "b2") {
        open[later].insert(m);
        continue;
      }
      if (Owner(m, 1, later) == "b1") {
        folded[later].push_back({Microbatch(m), Key(m, 1, later).attempt, 0});
      }
      Fold(m, 1, later);
      Fold(m, 0, later);
    }
    ASSERT_FALSE(open[later].empty());
    ASSERT_FALSE(folded[later].empty());
  }
  Listen();
  Say("b1", Leaving{30});
  ASSERT_EQ(Told<HandOver>("b1").size(), 2u);
  Listen();
  Say("b2", ParcelHeld{Generation(0), Step(1), WorkerId("b1"), folded[1]});
  EXPECT_TRUE(WhoWasTold<RosterChange>().empty());
  EXPECT_TRUE(Told<Shutdown>("b1").empty());
  Say("b2", ParcelHeld{Generation(0), Step(0), WorkerId("b1"), folded[0]});
  EXPECT_EQ(Told<RosterChange>("b2").at(0).adoptions,
            (std::vector<Adoption>{{WorkerId("b1"), WorkerId("b2"), Step(0)},
                                   {WorkerId("b1"), WorkerId("b2"), Step(1)}}));
  EXPECT_FALSE(Told<Shutdown>("b1").at(0).rejoin);
  CompleteStep();
  CompleteStep();
  EXPECT_TRUE(WhoWasTold<Resend>().empty());  // nothing is computed twice
}

TEST_F(CoordinatorLeaveTest, WhoLeavesBeforeItServedJustGoes) {
  StartTraining({1, 2});
  Come("new");
  Say("new", Leaving{30});
  EXPECT_FALSE(Told<Shutdown>("new").at(0).rejoin);
  CompleteStep();
}

TEST_F(CoordinatorLeaveTest, NothingIsOrderedAfterTheEnd) {
  options_.max_steps = 1;
  StartTraining({1, 1});
  Say("b1", Leaving{30});
  CompleteStep();
  ASSERT_TRUE(Finished());
  Listen();
  Pass(seconds(60));
  Publish(Version(1), "too late");
  Come("new");
  EXPECT_TRUE(orders().empty());
}

}  // namespace
}  // namespace swarm::protocol
