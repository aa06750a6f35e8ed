#include "ctl/profile/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::ctl {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

/// Of 100 seconds; what is left of them is forward.
StageProfile Spending(double rate, const std::vector<std::pair<Activity, double>>& seconds) {
  StageProfile stage{.workers = 1, .seconds = 100, .rate = rate};
  double rest = 100;
  for (const auto& [activity, part] : seconds) {
    stage.of_activity[static_cast<std::size_t>(activity)] = part;
    rest -= part;
  }
  stage.of_activity[static_cast<std::size_t>(Activity::kForward)] = rest;
  return stage;
}

ProfileSummary Of(std::vector<StageProfile> stages) {
  return {.first_step = 2,
          .last_step = 6,
          .window = {Timepoint(), Timepoint(std::chrono::seconds(100))},
          .stages = std::move(stages),
          .layers = {},
          .crossings = {}};
}

auto Says(const std::string& what, const std::string& advice) {
  return AllOf(Field(&Finding::what, HasSubstr(what)), Field(&Finding::advice, HasSubstr(advice)));
}

TEST(FindingsTest, BusyStagesOfOneSpeedHaveNone) {
  const ProfileSummary summary =
      Of({Spending(10, {{Activity::kWaiting, 20}}), Spending(11, {{Activity::kSumming, 5}})});
  EXPECT_THAT(FindWhatCosts(summary), IsEmpty());
  EXPECT_THAT(ToText(summary), HasSubstr("Nothing stands out."));
}

TEST(FindingsTest, TheSlowestStageIsNamedWithWhoWaitsForIt) {
  const ProfileSummary summary =
      Of({Spending(30, {{Activity::kWaiting, 62}}), Spending(10, {}), Spending(20, {})});
  EXPECT_THAT(FindWhatCosts(summary), ElementsAre(Says("stage 1 is the slowest", "--workers")));
  EXPECT_THAT(ToText(summary), HasSubstr("stage 0 waits 62 % of its time"));
}

TEST(FindingsTest, OfStagesOfOneSpeedThatWaitThePipelineDrains) {
  EXPECT_THAT(FindWhatCosts(Of({Spending(10, {{Activity::kWaiting, 40}}), Spending(10, {})})),
              ElementsAre(Says("stage 0 waits 40 %", "training.globalBatchSize")));
}

TEST(FindingsTest, EachCostHasItsAdvice) {
  const auto of = [](Activity activity, double seconds) {
    return FindWhatCosts(Of({Spending(10, {{activity, seconds}}), Spending(10, {})}));
  };
  EXPECT_THAT(of(Activity::kTransfer, 12), ElementsAre(Says("12 %", "pipeline.boundary.codec")));
  EXPECT_THAT(of(Activity::kTransfer, 8), IsEmpty());
  EXPECT_THAT(of(Activity::kEncode, 14), ElementsAre(Says("encodes and decodes 14 %", "BF16")));
  EXPECT_THAT(of(Activity::kDecode, 8), IsEmpty());
  EXPECT_THAT(of(Activity::kSumming, 30), ElementsAre(Says("summed", "training.reduceCodec")));
  EXPECT_THAT(of(Activity::kState, 25), ElementsAre(Says("25 %", "training.microbatchSize")));
  EXPECT_THAT(of(Activity::kState, 15), IsEmpty());
}

TEST(FindingsTest, ALayerThatTakesLongerThanMostIsNamed) {
  ProfileSummary summary = Of({Spending(10, {})});
  summary.layers = {{0, 0, 0.001, 0.002}, {1, 0, 0.001, 0.002}, {2, 0, 0.002, 0.004}};
  EXPECT_THAT(FindWhatCosts(summary), ElementsAre(Says("layer 2 takes 6.00 ms", "trace")));
  summary.layers.back() = {2, 0, 0.001, 0.0022};
  EXPECT_THAT(FindWhatCosts(summary), IsEmpty());
  EXPECT_THAT(ToText(summary), HasSubstr("Slowest layer: 2 of stage 0, 1.00 ms forward and"));
}

TEST(FindingsTest, AStageThatNobodyRecordedIsNotCalledSlow) {
  EXPECT_THAT(FindWhatCosts(Of({StageProfile(), Spending(10, {})})), IsEmpty());
}

TEST(FindingsTest, TheTextSaysWhatIsMissing) {
  ProfileSummary summary = Of({Spending(10, {})});
  EXPECT_THAT(ToText(summary), Not(HasSubstr("no room")));
  summary.dropped = 7;
  EXPECT_THAT(ToText(summary), HasSubstr("7 spans had no room"));
}

}  // namespace
}  // namespace swarm::ctl
