#include "ctl/chaos/chaos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace swarm::ctl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<LivingProgram> kSwarm = {
    {"trainer", true, {}}, {"worker-0", false, 0}, {"worker-1", false, 0}, {"worker-2", false, 1}};

ChaosSchedule Schedule(std::string_view script) {
  auto lines = ParseChaos(script);
  EXPECT_TRUE(lines.ok()) << lines.status().ToString();
  return ChaosSchedule(lines.ok() ? *lines : std::vector<ChaosLine>());
}

std::vector<std::string> Texts(const std::vector<Fault>& faults) {
  std::vector<std::string> texts;
  for (const Fault& fault : faults) texts.push_back(Describe(fault));
  return texts;
}

std::string ErrorOf(std::string_view script) {
  const auto lines = ParseChaos(script);
  return lines.ok() ? "no error" : lines.status().message();
}

TEST(ChaosTest, FaultsComeAtTheirStepOnce) {
  ChaosSchedule chaos = Schedule("kill worker-1 at step 7; kill trainer at step 20");
  EXPECT_THAT(Texts(chaos.Due(seconds(1), 6, kSwarm)), IsEmpty());
  EXPECT_THAT(Texts(chaos.Due(seconds(2), 9, kSwarm)), ElementsAre("kill worker-1"));
  EXPECT_THAT(Texts(chaos.Due(seconds(3), 20, kSwarm)), ElementsAre("kill trainer"));
  EXPECT_THAT(Texts(chaos.Due(seconds(4), 30, kSwarm)), IsEmpty());
}

TEST(ChaosTest, WhatLastsIsUndoneOnTheSameWorker) {
  ChaosSchedule chaos = Schedule("stop any at 12s for 3s");
  EXPECT_THAT(Texts(chaos.Due(milliseconds(11'900), 0, kSwarm)), IsEmpty());
  const auto begin = chaos.Due(seconds(12), 0, kSwarm);
  ASSERT_EQ(begin.size(), 1u);
  EXPECT_THAT(Texts(chaos.Due(milliseconds(14'900), 0, kSwarm)), IsEmpty());
  EXPECT_THAT(Texts(chaos.Due(seconds(15), 0, kSwarm)),
              ElementsAre("stop " + begin[0].target + " is over"));
  EXPECT_THAT(chaos.Due(seconds(60), 0, kSwarm), IsEmpty());
}

TEST(ChaosTest, AnyIsDrawnFromTheSeedAmongTheWorkers) {
  std::set<std::string> met;
  for (int seed = 0; seed < 50; ++seed) {
    const std::string script = "kill any at 1s seed " + std::to_string(seed);
    const auto first = Schedule(script).Due(seconds(1), 0, kSwarm);
    EXPECT_EQ(first, Schedule(script).Due(seconds(1), 0, kSwarm));
    met.insert(first.at(0).target);
  }
  EXPECT_THAT(met, ElementsAre("worker-0", "worker-1", "worker-2"));
}

TEST(ChaosTest, AnyOfAStageWaitsUntilTheStageIsKnown) {
  ChaosSchedule chaos = Schedule("kill any of stage 1 at step 3");
  EXPECT_THAT(chaos.Due(seconds(1), 3, {{"worker-2", false, {}}}), IsEmpty());
  EXPECT_THAT(Texts(chaos.Due(seconds(2), 4, kSwarm)), ElementsAre("kill worker-2"));
}

TEST(ChaosTest, AFaultWaitsForAWorkerThatIsNotThereYet) {
  ChaosSchedule chaos = Schedule("join 2 at step 1; kill worker-4 at step 2");
  EXPECT_THAT(Texts(chaos.Due(seconds(1), 2, kSwarm)), ElementsAre("join 2"));
  EXPECT_THAT(Texts(chaos.Due(seconds(2), 5, {{"worker-4", false, {}}})),
              ElementsAre("kill worker-4"));
}

TEST(ChaosTest, NobodyIsKilledTwiceAtOnce) {
  ChaosSchedule chaos = Schedule("kill any at 1s; kill any at 1s; kill any at 1s; kill any at 1s");
  std::set<std::string> met;
  for (const Fault& fault : chaos.Due(seconds(1), 0, kSwarm)) met.insert(fault.target);
  EXPECT_THAT(met, ElementsAre("worker-0", "worker-1", "worker-2"));
}

TEST(ChaosTest, EveryRepeatsBetweenAfterAndUntil) {
  ChaosSchedule chaos = Schedule("kill worker-0 every 2s after step 5 until step 9");
  std::vector<double> times;
  for (int i = 0; i <= 400; ++i) {
    const auto now = milliseconds(50 * i);
    // A step a second.
    if (!chaos.Due(now, static_cast<std::uint64_t>(i) / 20, kSwarm).empty()) {
      times.push_back(ToSeconds(now));
    }
  }
  EXPECT_THAT(times, ElementsAre(7));
}

TEST(ChaosTest, AboutEveryKeepsItsMeanAndIsTheSameForASeed) {
  const auto times = [](int seed) {
    ChaosSchedule chaos = Schedule("kill any about every 2s seed " + std::to_string(seed));
    std::vector<int> times;
    for (int i = 0; i < 20 * 4000; ++i) {
      for (std::size_t n = chaos.Due(milliseconds(50 * i), 0, kSwarm).size(); n > 0; --n) {
        times.push_back(i);
      }
    }
    return times;
  };
  EXPECT_EQ(times(7), times(7));
  EXPECT_NE(times(7), times(8));
  EXPECT_NEAR(static_cast<double>(times(7).size()), 2000, 4 * std::sqrt(2000));
}

TEST(ChaosTest, AProgramThatWasStoppedItselfMakesNoSalvo) {
  ChaosSchedule chaos = Schedule("kill any every 500ms");
  EXPECT_EQ(chaos.Due(milliseconds(500), 0, kSwarm).size(), 1u);
  EXPECT_LE(chaos.Due(seconds(60), 0, kSwarm).size(), 3u);
  EXPECT_EQ(chaos.Due(milliseconds(60'500), 0, kSwarm).size(), 1u);
}

TEST(ChaosTest, EveryKindOfFaultIsUnderstood) {
  ChaosSchedule chaos = Schedule(R"(# all of them
    stop worker-0 at 1s; continue worker-0 at 1s
    slow worker-0 by 2.5 at time 1s
    cut worker-0 at 1s              # from all
    cut worker-0 from worker-1 at 1s
    cut worker-0 to trainer at 1s for 2s
    cut all to worker-0 at 1s
    delay trainer by 50ms at 1s
    drain worker-2 grace 1.5s at 1s
    join at 1s)");
  EXPECT_THAT(
      Texts(chaos.Due(seconds(1), 0, kSwarm)),
      ElementsAre("stop worker-0", "continue worker-0", "slow worker-0 by 2.5",
                  "cut worker-0 from all", "cut worker-0 from worker-1", "cut worker-0 to trainer",
                  "cut all to worker-0", "delay trainer by 0.05 s",
                  "drain worker-2 with a grace of 1.5 s", "join 1"));
}

TEST(ChaosTest, ErrorsNameTheLineAndWhatIsExpected) {
  EXPECT_THAT(ErrorOf("kill any at 1s\nkil any at 1s"),
              testing::AllOf(HasSubstr("line 2: 'kil any at 1s'"),
                             HasSubstr("expected kill, stop, continue")));
  EXPECT_THAT(ErrorOf("kill at step 3"), HasSubstr("expected a worker's name (worker-N)"));
  EXPECT_THAT(ErrorOf("kill any at noon"),
              HasSubstr("expected 'step N' or a time such as 500ms, 2.5s or 3m after 'at', not"
                        " 'noon'"));
  EXPECT_THAT(ErrorOf("kill any"), HasSubstr("expected one of 'at step N'"));
  EXPECT_THAT(ErrorOf("kill any at 1s every 2s"), HasSubstr("expected one of"));
  EXPECT_THAT(ErrorOf("kill any at 1s for 3s"), HasSubstr("a clause of 'kill'"));
  EXPECT_THAT(ErrorOf("kill any at 1"), HasSubstr("expected 'step N' or a time"));
  EXPECT_THAT(ErrorOf("slow any at 1s"), HasSubstr("expected 'by FACTOR'"));
  EXPECT_THAT(ErrorOf("slow any by 0.5 at 1s"), HasSubstr("a factor above 1"));
  EXPECT_THAT(ErrorOf("cut all at 1s"), HasSubstr("expected 'to NAME'"));
  EXPECT_THAT(ErrorOf("drain trainer at 1s"), HasSubstr("cannot be drained"));
  EXPECT_THAT(ErrorOf("continue any at 1s"), HasSubstr("stop any for T"));
  EXPECT_THAT(ErrorOf("kill any every 0s"), HasSubstr("at least 1ms"));
  EXPECT_THAT(ErrorOf("kill any at 99999999999999999999s"), HasSubstr("a time"));
}

TEST(ChaosTest, AFaultInAPhaseWaitsForAWorkerThatIsInIt) {
  ChaosSchedule chaos = Schedule(
      "stop worker-1 at reduce of step 7 for 1s; kill trainer at commit of step 7 in worker-2");
  const chaos::Hold reduce{"worker-1", chaos::WorkPhase::kReduce, 7};
  const chaos::Hold commit{"worker-2", chaos::WorkPhase::kCommit, 7};
  EXPECT_THAT(Texts(chaos.Due(seconds(1), 9, kSwarm)), IsEmpty());
  const auto stop = chaos.Due(seconds(2), 9, kSwarm, {reduce});
  EXPECT_THAT(Texts(stop), ElementsAre("stop worker-1"));
  EXPECT_EQ(stop[0].hold, reduce);
  EXPECT_THAT(Texts(chaos.Due(seconds(3), 9, kSwarm, {reduce, commit})),
              ElementsAre("stop worker-1 is over", "kill trainer"));
  EXPECT_THAT(Texts(chaos.Due(seconds(9), 9, kSwarm, {reduce, commit})), IsEmpty());
}

TEST(ChaosTest, AFaultInAPhaseNamesWhoIsInIt) {
  EXPECT_THAT(ErrorOf("kill any at reduce of step 3"), HasSubstr("expected 'in worker-N'"));
  EXPECT_THAT(ErrorOf("kill trainer at commit of step 3"), HasSubstr("expected 'in worker-N'"));
  EXPECT_THAT(ErrorOf("kill worker-1 at reduce"), HasSubstr("expected 'of step N'"));
  EXPECT_EQ(ErrorOf("join at forward of step 3 in worker-1"), "no error");
}

TEST(ChaosTest, AnEmptyScriptDoesNothing) {
  EXPECT_THAT(Schedule(" \n# nothing\n;;").Due(seconds(1), 1, kSwarm), IsEmpty());
}

}  // namespace
}  // namespace swarm::ctl
