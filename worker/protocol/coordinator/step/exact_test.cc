// Exact accumulation: a contribution that does not fit the step's scale.
#include "worker/protocol/coordinator/testing/coordinator_under_test.h"

namespace swarm::protocol {
namespace {

class CoordinatorExactTest : public CoordinatorTest {
 protected:
  CoordinatorExactTest() { options_.exact = true; }
  void Overflow(std::uint64_t m, std::uint64_t stage) {
    Say(Owner(m, stage),
        Progress{{{.key = Key(m, stage), .event = TaskReport::Event::kOverflow, .seconds = 1}}});
  }
};

TEST_F(CoordinatorExactTest, AnOverflowVoidsTheStageOnAllReplicasAndReplaysAllAtASmallerScale) {
  options_.microbatches = 4;
  StartTraining({1, 2});
  for (const std::uint64_t m : {0, 1, 2}) Fold(m, 1);
  Listen();
  Overflow(3, 1);
  EXPECT_EQ(WhoWasTold<Void>(), (std::set<std::string>{"b1", "b2"}));
  EXPECT_EQ(Told<Void>("b1").at(0).level, 1u);
  AnswerVoids("b1");
  EXPECT_TRUE(Told<Resend>("a1").empty());  // the other may still hold one, which would count twice
  AnswerVoids("b2");
  EXPECT_EQ(Told<Resend>("a1").size(), 4u);
  FoldAll();
  EXPECT_EQ(Asked("b1", 1).level, 1u);
  EXPECT_EQ(Asked("a1", 0).level, 0u);
  Reduce();
  EXPECT_EQ(step(), 1u);
}

TEST_F(CoordinatorExactTest, OneOverflowIsEnoughForManyThatComeAtTheSameTime) {
  options_.microbatches = 4;
  StartTraining({1, 2});
  std::vector<std::pair<std::string, TaskKey>> cells;
  for (const std::uint64_t m : {0, 1, 2, 3}) cells.emplace_back(Owner(m, 1), Key(m, 1));
  for (const auto& [owner, key] : cells) {
    Say(owner, Progress{{{.key = key, .event = TaskReport::Event::kOverflow}}});
  }
  EXPECT_EQ(Told<Void>("b1").size(), 1u);
  EXPECT_EQ(Told<Void>("b1").at(0).level, 1u);
}

TEST_F(CoordinatorExactTest, WhatOverflowsAgainIsScaledFurtherDown) {
  StartTraining({1, 1});
  Overflow(0, 1);
  AnswerVoids("b1");
  Overflow(0, 1);
  EXPECT_EQ(Told<Void>("b1").back().level, 2u);
  AnswerVoids("b1");
  CompleteStep();
}

TEST_F(CoordinatorExactTest, AFormerVoidsAnswerDoesNotStandForTheLatterOne) {
  StartTraining({1, 1});
  Overflow(0, 1);
  const Attempt former = Told<Void>("b1").at(0).number;
  AnswerVoids("b1");
  Overflow(0, 1);
  Listen();
  Say("b1", Voided{Generation(0), Step(0), former});
  EXPECT_TRUE(Told<Resend>("a1").empty());
}

TEST_F(CoordinatorExactTest, StagesThatShareATensorShareTheScale) {
  options_.tied_head = true;
  StartTraining({1, 1, 1});
  Overflow(0, 2);
  EXPECT_EQ(WhoWasTold<Void>(), (std::set<std::string>{"a1", "c1"}));
  AnswerVoids("a1");
  AnswerVoids("c1");
  FoldAll();
  EXPECT_EQ(Asked("a1", 0).level, 1u);
  EXPECT_EQ(Asked("b1", 1).level, 0u);
  EXPECT_EQ(Asked("c1", 3).level, 1u);
}

TEST_F(CoordinatorExactTest, AReduceThatHasBegunIsThawedWhereItsStageIsVoided) {
  options_.tied_head = true;
  StartTraining({1, 1});
  Fold(0, 1);
  Fold(1, 1);
  ASSERT_EQ(WhoWasTold<protocol::Reduce>(), std::set<std::string>{"b1"});
  Overflow(0, 0);  // stage 1 shares a tensor with stage 0, and has folded all
  EXPECT_EQ(Told<Thaw>("b1").size(), 1u);
  AnswerVoids("a1");
  AnswerVoids("b1");
  FoldAll();
  EXPECT_EQ(Asked("b1", 1).level, 1u);
  Reduce();
  EXPECT_EQ(step(), 1u);
}

TEST_F(CoordinatorExactTest, ALossWhileAStageIsVoidedWaitsForNobodyWhoIsGone) {
  options_.microbatches = 4;
  StartTraining({1, 2});
  Overflow(0, 1);
  AnswerVoids("b1");
  Lose("b2");
  EXPECT_FALSE(Told<Resend>("a1").empty());
  CompleteStep();
}

TEST_F(CoordinatorExactTest, TheNextStepBeginsAtItsOwnScale) {
  StartTraining({1, 1});
  Overflow(0, 1);
  AnswerVoids("b1");
  CompleteStep();
  FoldAll();
  EXPECT_EQ(Asked("b1", 1).level, 0u);
}

}  // namespace
}  // namespace swarm::protocol
