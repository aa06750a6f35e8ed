#include "worker/protocol/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace swarm::protocol {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Kind = Verdict::Kind;

/// The testimonies about one microbatch. Stage 1 takes what stage 0 gives.
class JudgeTest : public testing::Test {
 protected:
  void Forward(const std::string& worker, std::uint64_t stage, std::uint64_t input,
               std::uint64_t output) {
    testimonies_.insert({StageIndex(stage), TaskPart::kForward, input, output, WorkerId(worker)});
  }
  void Backward(const std::string& worker, std::uint64_t stage, std::uint64_t input,
                std::uint64_t output) {
    testimonies_.insert({StageIndex(stage), TaskPart::kBackward, input, output, WorkerId(worker)});
  }
  static std::vector<WorkerId> Ids(const std::vector<std::string>& names) {
    return {names.begin(), names.end()};
  }
  Verdict Judged() const { return Judge(testimonies_); }

  Testimonies testimonies_;
};

TEST_F(JudgeTest, AWorkerThatSaysEverMoreIsHeardToABoundAndOthersStillAre) {
  const auto add = [&](const std::string& worker, std::uint64_t input) {
    return Add({StageIndex(0), TaskPart::kForward, input, 11, WorkerId(worker)}, &testimonies_);
  };
  EXPECT_TRUE(add("a1", 0));
  EXPECT_FALSE(add("a1", 0));
  for (std::uint64_t input = 1; input < 1000; ++input) add("a1", input);
  EXPECT_EQ(testimonies_.size(), static_cast<std::size_t>(kTestimoniesMax));
  EXPECT_TRUE(add("a2", 0));
}

TEST_F(JudgeTest, EqualResultsAgree) {
  for (const std::string copy : {"1", "2"}) {
    Forward("a" + copy, 0, 10, 11);
    Forward("b" + copy, 1, 11, 12);
    Backward("b" + copy, 1, 12, 13);
    Backward("a" + copy, 0, 13, 14);
  }
  EXPECT_EQ(Judged(), Verdict{});
  EXPECT_TRUE(IsConfirmed(testimonies_, StageIndex(1)));
}

TEST_F(JudgeTest, TwoThatDifferAreBothSuspectsAndNobodyIsConvicted) {
  Forward("a1", 0, 10, 11);
  Forward("a2", 0, 10, 666);
  EXPECT_EQ(Judged(),
            (Verdict{Kind::kDisagree, StageIndex(0), TaskPart::kForward, Ids({"a1", "a2"})}));
  EXPECT_FALSE(IsConfirmed(testimonies_, StageIndex(0)));
}

TEST_F(JudgeTest, AThirdConvictsTheFirst) {
  Forward("a1", 0, 10, 666);
  Forward("a2", 0, 10, 11);
  Forward("a3", 0, 10, 11);
  EXPECT_EQ(Judged(), (Verdict{Kind::kConvicted, StageIndex(0), TaskPart::kForward, Ids({"a1"})}));
}

TEST_F(JudgeTest, AThirdConvictsTheSecond) {
  Backward("a1", 0, 10, 11);
  Backward("a2", 0, 10, 666);
  Backward("a3", 0, 10, 11);
  EXPECT_EQ(Judged(), (Verdict{Kind::kConvicted, StageIndex(0), TaskPart::kBackward, Ids({"a2"})}));
}

TEST_F(JudgeTest, ThreeResultsOfThreeWorkersDecideNothing) {
  Forward("a1", 0, 10, 11);
  Forward("a2", 0, 10, 12);
  Forward("a3", 0, 10, 13);
  EXPECT_EQ(Judged().kind, Kind::kDisagree);
  EXPECT_THAT(Judged().workers, ElementsAre(WorkerId("a1"), WorkerId("a2"), WorkerId("a3")));
}

TEST_F(JudgeTest, TwoAgainstTwoDecideNothing) {
  Forward("a1", 0, 10, 11);
  Forward("a2", 0, 10, 11);
  Forward("a3", 0, 10, 12);
  Forward("a4", 0, 10, 12);
  EXPECT_EQ(Judged().kind, Kind::kDisagree);
}

TEST_F(JudgeTest, AllButTheMostAreWrong) {
  Forward("a1", 0, 10, 12);
  Forward("a2", 0, 10, 11);
  Forward("a3", 0, 10, 11);
  Forward("a4", 0, 10, 13);
  EXPECT_THAT(Judged().workers, ElementsAre(WorkerId("a1"), WorkerId("a4")));
}

TEST_F(JudgeTest, AWrongOutputBlamesNobodyBehindIt) {
  for (const std::string good : {"2", "3"}) {
    Forward("a" + good, 0, 10, 11);
    Forward("b" + good, 1, 11, 12);
    Backward("b" + good, 1, 12, 13);
    Backward("a" + good, 0, 13, 14);
  }
  Forward("a1", 0, 10, 666);
  Forward("b1", 1, 666, 667);
  Backward("b1", 1, 667, 668);
  Backward("a1", 0, 668, 669);
  EXPECT_EQ(Judged(), (Verdict{Kind::kConvicted, StageIndex(0), TaskPart::kForward, Ids({"a1"})}));
}

TEST_F(JudgeTest, AWrongGradientBlamesNobodyBelowIt) {
  for (const std::string good : {"2", "3"}) {
    Backward("b" + good, 1, 12, 13);
    Backward("a" + good, 0, 13, 14);
  }
  Backward("b1", 1, 12, 666);
  Backward("a1", 0, 666, 667);
  EXPECT_EQ(Judged(), (Verdict{Kind::kConvicted, StageIndex(1), TaskPart::kBackward, Ids({"b1"})}));
}

TEST_F(JudgeTest, OfTwoDisagreementsThatComesFirstWhichTheDataReachFirst) {
  Backward("a1", 0, 13, 14);
  Backward("a2", 0, 13, 666);
  Backward("b1", 1, 12, 13);
  Backward("b2", 1, 12, 666);
  EXPECT_EQ(Judged().stage, StageIndex(1));
}

TEST_F(JudgeTest, AConvictionCountsMoreThanAnEarlierDisagreement) {
  Forward("a1", 0, 10, 11);
  Forward("a2", 0, 10, 666);
  for (const std::string good : {"b2", "b3"}) Forward(good, 1, 11, 12);
  Forward("b1", 1, 11, 666);
  EXPECT_THAT(Judged().workers, ElementsAre(WorkerId("b1")));
}

TEST_F(JudgeTest, AWorkerThatContradictsItselfIsWrongWithoutAThird) {
  Forward("a1", 0, 10, 11);
  Forward("a1", 0, 10, 666);
  EXPECT_EQ(Judged(), (Verdict{Kind::kConvicted, StageIndex(0), TaskPart::kForward, Ids({"a1"})}));
}

TEST_F(JudgeTest, WorkersWithOtherInputsAreNotCompared) {
  Forward("b1", 1, 11, 12);
  Forward("b2", 1, 666, 667);
  EXPECT_EQ(Judged().kind, Kind::kAgree);
  EXPECT_THAT(Judged().workers, IsEmpty());
  EXPECT_FALSE(IsConfirmed(testimonies_, StageIndex(1)));
}

TEST_F(JudgeTest, AForwardAloneConfirmsNothing) {
  Forward("a1", 0, 10, 11);
  Forward("a2", 0, 10, 11);
  Backward("a1", 0, 13, 14);
  EXPECT_FALSE(IsConfirmed(testimonies_, StageIndex(0)));
}

TEST(IsAuditedTest, DrawsTheFractionThatWasAskedFor) {
  int drawn = 0;
  for (std::uint64_t step = 0; step < 1000; ++step) {
    for (std::uint64_t m = 0; m < 100; ++m) {
      drawn += IsAudited(7, Step(step), Microbatch(m), 0.01) ? 1 : 0;
    }
  }
  EXPECT_NEAR(drawn, 1000, 100);  // more than three standard deviations
}

TEST(IsAuditedTest, DrawsAllOrNoneAtTheEnds) {
  for (std::uint64_t m = 0; m < 1000; ++m) {
    EXPECT_TRUE(IsAudited(7, Step(3), Microbatch(m), 1));
    EXPECT_FALSE(IsAudited(7, Step(3), Microbatch(m), 0));
  }
}

TEST(IsAuditedTest, ALargerFractionDrawsWhatASmallerOneDraws) {
  for (std::uint64_t m = 0; m < 1000; ++m) {
    if (IsAudited(7, Step(3), Microbatch(m), 0.1)) {
      EXPECT_TRUE(IsAudited(7, Step(3), Microbatch(m), 0.2));
    }
  }
}

}  // namespace
}  // namespace swarm::protocol
