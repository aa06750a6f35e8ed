#include "ctl/view/live_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace swarm::ctl {
namespace {

using protocol::JobStatus;
using protocol::StageStatus;
using testing::ElementsAre;

StageStatus::Worker Worker(std::string id, std::uint64_t queued, double utilization) {
  return {protocol::WorkerId(std::move(id)), 1, queued, utilization, 1.25e6, 7.5};
}

JobStatus Training() {
  JobStatus status;
  status.state = protocol::JobState::kTraining;
  status.step = protocol::Step(50);
  status.max_steps = 200;
  status.loss = 2.34567;
  status.validation_loss = 2.5;
  status.tokens_per_second = 5234;
  status.seconds_left = 125;
  status.stages = {
      {protocol::StageIndex(0), {Worker("worker-0", 3, 0.5), Worker("worker-1", 0, 1.0)}},
      {protocol::StageIndex(1), {}}};
  return status;
}

LossHistory Falling() {
  LossHistory history;
  for (std::uint64_t step = 1; step <= 8; ++step)
    history.Add(step, 9.0 - static_cast<double>(step));
  return history;
}

// Columns of a line: characters that are not continuations of UTF-8; escapes count as none.
std::size_t Columns(const std::string& line) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      i = line.find('m', i);
    } else if ((static_cast<unsigned char>(line[i]) & 0xc0) != 0x80) {
      ++columns;
    }
  }
  return columns;
}

TEST(LiveViewTest, WhereThePriceOfAWorkerIsKnownItSaysWhatThoseThatAreThereCost) {
  JobStatus status = Training();
  status.spares = {protocol::WorkerId("worker-2")};
  const api::DollarRange price{0.5, 0.5};
  EXPECT_EQ(RenderLine(status, price),
            "step 50/200  loss 2.3457  validation 2.5000  5.23k tokens/s  $1.50/hour  2m05s left");
  EXPECT_EQ(RenderView(status, Falling(), {.width = 80, .worker_price = price}).at(1),
            "loss 2.3457  validation 2.5000  5.23k tokens/s  $1.50/hour  █▇▆▅▄▃▂▁");
}

TEST(LiveViewTest, ThePictureShowsProgressLossAndEachWorker) {
  EXPECT_THAT(
      RenderView(Training(), Falling(), {80, false}),
      ElementsAre("Training ██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 50/200   25%  2m05s left",
                  "loss 2.3457  validation 2.5000  5.23k tokens/s  █▇▆▅▄▃▂▁",
                  "stage 0  worker-0          3 queued ████░░░░  50% 7.50 tasks/s 1.25MB/s",
                  "         worker-1          0 queued ████████ 100% 7.50 tasks/s 1.25MB/s",
                  "stage 1  no worker"));
}

TEST(LiveViewTest, ColoursAreOnlyAddedWhenTheyAreWanted) {
  const auto plain = RenderView(Training(), Falling(), {80, false});
  const auto colored = RenderView(Training(), Falling(), {80, true});
  ASSERT_EQ(plain.size(), colored.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].find('\x1b'), std::string::npos);
    EXPECT_NE(colored[i].find("\x1b["), std::string::npos);
    EXPECT_EQ(Columns(plain[i]), Columns(colored[i]));
  }
  EXPECT_EQ(colored[4], "\x1b[1mstage 1  \x1b[0m\x1b[31mno worker\x1b[0m");
}

TEST(LiveViewTest, NoLineIsWiderThanTheTerminal) {
  JobStatus status = Training();
  status.message = "a stage has no worker: waiting for one — until then nothing is committed";
  for (const bool color : {false, true}) {
    for (std::size_t width = 0; width <= 120; ++width) {
      for (const std::string& line : RenderView(status, Falling(), {width, color})) {
        EXPECT_LE(Columns(line), width) << line;
      }
    }
  }
}

TEST(LiveViewTest, WorkersWithoutRoomAreCounted) {
  JobStatus status = Training();
  for (int i = 0; i < 100; ++i) status.stages[0].workers.push_back(Worker("w", 0, 0));
  status.message = "hello";
  const auto lines = RenderView(status, Falling(), {80, false, 10});
  EXPECT_EQ(lines.size(), 10u);
  EXPECT_THAT(lines, testing::Contains(testing::MatchesRegex("and 9[0-9] more workers")));
  EXPECT_EQ(lines.back(), "hello");
}

TEST(LiveViewTest, AJobThatHasNotBegunHasNoLossAndNoTime) {
  JobStatus status;
  status.max_steps = 10;
  EXPECT_THAT(RenderView(status, LossHistory(), {60, false}),
              ElementsAre("Starting ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 0/10    0%",
                          "loss -  0 tokens/s  "));
}

TEST(LiveViewTest, OneLineAStepForALog) {
  EXPECT_EQ(RenderLine(Training()),
            "step 50/200  loss 2.3457  validation 2.5000  5.23k tokens/s  2m05s left");
}

TEST(SparklineTest, AveragesWhatDoesNotFitAndLeavesHolesForWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Sparkline(std::vector<double>{0, 0, 7, 7}, 2), "▁█");
  EXPECT_EQ(Sparkline(std::vector<double>{0, nan, 7}, 10), "▁ █");
  EXPECT_EQ(Sparkline(std::vector<double>{5, 5, 5}, 10), "▁▁▁");
  EXPECT_EQ(Sparkline({}, 10), "");
}

TEST(LossHistoryTest, StaysBoundedAndKeepsTheShape) {
  LossHistory history;
  constexpr std::uint64_t kSteps = 100'000;
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    history.Add(step, static_cast<double>(kSteps - step));
  }
  EXPECT_LE(history.values().size(), 4096u);
  EXPECT_GE(history.values().size(), 1024u);
  EXPECT_TRUE(std::is_sorted(history.values().rbegin(), history.values().rend()));
}

TEST(LossHistoryTest, AStepThatIsRepeatedAfterARollbackCountsOnce) {
  LossHistory history;
  for (const std::uint64_t step : {1, 2, 3, 2, 3, 4}) history.Add(step, 1.0);
  EXPECT_EQ(history.values().size(), 4u);
}

TEST(ShortNumberTest, HasThreeDigits) {
  const std::vector<std::pair<double, std::string>> table = {
      {0, "0"},
      {42, "42"},
      {7.5, "7.50"},
      {12.34, "12.3"},
      {999, "999"},
      {999.6, "1.00k"},
      {5234, "5.23k"},
      {99'960, "100k"},
      {1.5e6, "1.50M"},
      {2e15, "2000T"},
      {std::numeric_limits<double>::infinity(), "-"}};
  for (const auto& [number, text] : table) EXPECT_EQ(ShortNumber(number), text) << number;
}

// The steps that get a line when each step takes `each`.
std::vector<std::uint64_t> StepsWithLine(LinePace pace, Duration each, std::uint64_t steps) {
  std::vector<std::uint64_t> told;
  JobStatus status = Training();
  status.max_steps = steps;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    status.step = protocol::Step(step);
    if (pace.IsDue(status, Timepoint() + each * step)) told.push_back(step);
  }
  return told;
}

TEST(LinePaceTest, ALogGetsALineForEachTenthStepAndForTheLast) {
  EXPECT_THAT(StepsWithLine({}, std::chrono::milliseconds(100), 34),
              ElementsAre(1, 10, 20, 30, 34));
}

TEST(LinePaceTest, WhereStepsAreSlowALogGetsALineAfterHalfAMinute) {
  EXPECT_THAT(StepsWithLine({}, std::chrono::seconds(11), 9), ElementsAre(1, 4, 7, 9));
}

TEST(LinePaceTest, AChangeOfStateGetsALineAtOnceAndARepetitionNone) {
  LinePace pace;
  JobStatus status = Training();
  const Timepoint now;
  EXPECT_TRUE(pace.IsDue(status, now));
  EXPECT_FALSE(pace.IsDue(status, now + std::chrono::minutes(5)));  // no step was made
  status.state = protocol::JobState::kWaiting;
  EXPECT_TRUE(pace.IsDue(status, now));
  status.state = protocol::JobState::kTraining;
  EXPECT_TRUE(pace.IsDue(status, now));
}

TEST(LinePaceTest, StepsThatPassUnseenAndStepsBackCountAsWell) {
  LinePace pace;
  JobStatus status = Training();  // at step 50
  const Timepoint now;
  EXPECT_TRUE(pace.IsDue(status, now));
  for (const auto& [step, has_line] : {std::pair(59, false), {73, true}, {68, true}, {69, false}}) {
    status.step = protocol::Step(step);
    EXPECT_EQ(pace.IsDue(status, now), has_line) << step;
  }
}

}  // namespace
}  // namespace swarm::ctl
