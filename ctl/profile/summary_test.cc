#include "ctl/profile/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/profile/testing/recorded_spans.h"

namespace swarm::ctl {
namespace {

using enum SpanKind;
using testing::ElementsAre;
using testing::IsEmpty;

ProfileSummary Of(const std::vector<WorkerSpans>& workers, std::uint64_t first_step = 0) {
  const auto summary = Summarize(workers, FindTransfers(workers), first_step);
  EXPECT_TRUE(summary.ok()) << summary.status().message();
  return *summary;
}

double SecondsOf(const StageProfile& stage, Activity activity) {
  return stage.of_activity[static_cast<std::size_t>(activity)];
}

TEST(DivisionTest, APartOfATaskIsNotTheTaskAndWhatIsLeftIsWaiting) {
  const std::vector<Span> spans = {During(kForward, 10, 30), During(kEncode, 25, 30),
                                   During(kFold, 20, 40)};
  EXPECT_THAT(
      Divide(spans, {}, {At(0), At(50)}),
      ElementsAre(Piece{Activity::kWaiting, At(0), At(10)},
                  Piece{Activity::kForward, At(10), At(25)},
                  Piece{Activity::kEncode, At(25), At(30)}, Piece{Activity::kState, At(30), At(40)},
                  Piece{Activity::kWaiting, At(40), At(50)}));
}

TEST(DivisionTest, WithoutWorkASumCountsBeforeATransferAndThatBeforeWaiting) {
  const Transfer transfer{.sent = During(kSendActivations, 5, 6),
                          .received = During(kReceiveActivations, 18, 20)};
  EXPECT_THAT(Divide({During(kSum, 0, 10)}, {transfer}, {At(0), At(30)}),
              ElementsAre(Piece{Activity::kSumming, At(0), At(10)},
                          Piece{Activity::kTransfer, At(10), At(20)},
                          Piece{Activity::kWaiting, At(20), At(30)}));
}

TEST(DivisionTest, TasksBesideEachOtherAreOnePieceAndTheWindowCutsThem) {
  EXPECT_THAT(Divide({During(kForward, 0, 10), During(kForward, 10, 30)}, {}, {At(5), At(25)}),
              ElementsAre(Piece{Activity::kForward, At(5), At(25)}));
  EXPECT_THAT(Divide({}, {}, {At(5), At(5)}), IsEmpty());
}

TEST(TransfersTest, AreFromTheSenderThatTheReceiverHeardLast) {
  const std::vector<WorkerSpans> workers = {
      OfStage(0, "a", {During(kSendActivations, 10, 11), During(kSendActivations, 40, 41)}),
      OfStage(0, "other", {During(kSendActivations, 20, 21)}),
      OfStage(1, "b", {During(kReceiveActivations, 30, 31)})};
  const std::vector<Transfer> transfers = FindTransfers(workers);
  ASSERT_EQ(transfers.size(), 1u);
  EXPECT_EQ(transfers[0].from, 1u);
  EXPECT_EQ(transfers[0].to, 2u);
  EXPECT_EQ(transfers[0].sent.begin, At(20));
}

TEST(TransfersTest, TokensAndWhatNobodySentAreNone) {
  EXPECT_THAT(FindTransfers({OfStage(0, "a", {During(kReceiveActivations, 1, 2)}),
                             OfStage(1, "b", {During(kReceiveActivations, 1, 2)})}),
              IsEmpty());
}

TEST(SummaryTest, TellsWhereTheTimeOfEachStageWent) {
  const ProfileSummary summary = Of(OneMicrobatch());
  ASSERT_EQ(summary.stages.size(), 2u);
  EXPECT_DOUBLE_EQ(summary.seconds(), 0.1);
  const StageProfile& first = summary.stages[0];
  EXPECT_DOUBLE_EQ(SecondsOf(first, Activity::kForward), 0.018);
  EXPECT_DOUBLE_EQ(SecondsOf(first, Activity::kEncode), 0.002);
  EXPECT_DOUBLE_EQ(SecondsOf(first, Activity::kDecode), 0.001);
  EXPECT_DOUBLE_EQ(SecondsOf(first, Activity::kBackward), 0.029);
  EXPECT_DOUBLE_EQ(SecondsOf(first, Activity::kState), 0.007);
  EXPECT_DOUBLE_EQ(SecondsOf(first, Activity::kSumming), 0.003);
  EXPECT_DOUBLE_EQ(SecondsOf(first, Activity::kTransfer), 0.010) << "from 50 to 60";
  EXPECT_DOUBLE_EQ(SecondsOf(first, Activity::kWaiting), 0.030) << "from 20 to 50";
  EXPECT_DOUBLE_EQ(first.send_seconds, 0.001);
  EXPECT_NEAR(first.rate, 1 / 0.055, 1e-9);
  const StageProfile& second = summary.stages[1];
  EXPECT_DOUBLE_EQ(second.share(Activity::kTransfer), 0.1) << "from 20 to 30";
  EXPECT_DOUBLE_EQ(second.share(Activity::kWaiting), 0.7);
  for (const StageProfile& stage : summary.stages) {
    double sum = 0;
    for (const double seconds : stage.of_activity) sum += seconds;
    EXPECT_NEAR(sum, stage.seconds, 1e-12);
  }
}

TEST(SummaryTest, TellsMeansOfLayersAndOfWhatCrossesBoundaries) {
  const ProfileSummary summary = Of(OneMicrobatch());
  ASSERT_EQ(summary.layers.size(), 2u);
  EXPECT_EQ(summary.layers[1].layer, 1u);
  EXPECT_DOUBLE_EQ(summary.layers[1].forward_seconds, 0.008);
  EXPECT_DOUBLE_EQ(summary.layers[1].backward_seconds, 0.019);
  ASSERT_EQ(summary.crossings.size(), 2u);
  EXPECT_EQ(summary.crossings[1].from, 1u);
  EXPECT_EQ(summary.crossings[1].to, 0u);
  EXPECT_DOUBLE_EQ(summary.crossings[1].bytes, 2048);
  EXPECT_DOUBLE_EQ(summary.crossings[1].seconds, 0.010);
}

TEST(SummaryTest, ALayerThatIsComputedAgainTakesBothTimes) {
  const ProfileSummary summary = Of({OfStage(
      0, "a",
      {During(kForward, 0, 10), OfLayer(0, During(kLayerForward, 0, 4)), During(kBackward, 10, 30),
       OfLayer(0, During(kLayerForward, 10, 16)), OfLayer(0, During(kLayerBackward, 16, 25))})});
  ASSERT_EQ(summary.layers.size(), 1u);
  EXPECT_DOUBLE_EQ(summary.layers[0].forward_seconds, 0.010);
  EXPECT_DOUBLE_EQ(summary.layers[0].backward_seconds, 0.009);
}

TEST(SummaryTest, LeavesOutTheStepsBefore) {
  const std::vector<WorkerSpans> workers = {
      OfStage(0, "a",
              {During(kForward, 0, 500), During(kBackward, 500, 900),
               OfStep(1, During(kForward, 1000, 1010)), OfStep(1, During(kBackward, 1010, 1040)),
               OfStep(2, During(kForward, 1050, 1060)), OfStep(2, During(kBackward, 1060, 1100))})};
  const ProfileSummary summary = Of(workers, 1);
  EXPECT_EQ(summary.first_step, 1u);
  EXPECT_EQ(summary.last_step, 2u);
  EXPECT_DOUBLE_EQ(summary.seconds(), 0.1);
  EXPECT_DOUBLE_EQ(summary.stages[0].share(Activity::kForward), 0.2);
  EXPECT_DOUBLE_EQ(summary.stages[0].share(Activity::kWaiting), 0.1);
}

TEST(SummaryTest, ReplicasOfAStageAreAddedUp) {
  const auto replica = [](const char* name) {
    return OfStage(0, name, {During(kForward, 0, 50), During(kBackward, 50, 100)});
  };
  const ProfileSummary summary = Of({replica("a"), replica("b")});
  EXPECT_EQ(summary.stages[0].workers, 2u);
  EXPECT_DOUBLE_EQ(summary.stages[0].seconds, 0.2);
  EXPECT_DOUBLE_EQ(summary.stages[0].rate, 20);
}

TEST(SummaryTest, OfStepsThatNobodyComputedThereIsNone) {
  const auto none = Summarize(OneMicrobatch(), {}, 1);
  EXPECT_EQ(none.status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace swarm::ctl
