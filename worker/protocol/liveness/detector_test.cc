#include "worker/protocol/liveness/detector.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "worker/protocol/liveness/testing/heartbeat_simulation.h"

namespace swarm::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const WorkerId kA("a"), kB("b");

/// A detector, and a clock that the test advances.
class FailureDetectorTest : public testing::Test {
 protected:
  /// Lets time pass in ticks; the workers beat every 250 ms.
  void Pass(Duration duration, const std::vector<WorkerId>& beating) {
    for (const Timepoint end = now_ + duration; now_ < end;) {
      now_ += milliseconds(50);
      if ((now_ - Timepoint{}) % milliseconds(250) == Duration::zero()) {
        for (const WorkerId& worker : beating) detector_.OnBeat(worker, now_);
      }
      suspects_ = detector_.Suspects(now_);
    }
  }
  /// The time from now until a worker is suspected.
  Duration TimeToSuspicion(const std::vector<WorkerId>& beating) {
    const Timepoint begin = now_;
    while (suspects_.empty() && now_ < begin + seconds(60)) Pass(milliseconds(50), beating);
    return now_ - begin;
  }

  Timepoint now_{};
  FailureDetector detector_;
  std::vector<WorkerId> suspects_;
};

TEST_F(FailureDetectorTest, NobodyIsSuspectedWhileTheyBeat) {
  detector_.Watch(kA, now_);
  detector_.Watch(kB, now_);
  EXPECT_EQ(TimeToSuspicion({kA, kB}), seconds(60));
}

TEST_F(FailureDetectorTest, ASteadyWorkerThatFallsSilentIsSuspectedSoonAndAlone) {
  detector_.Watch(kA, now_);
  detector_.Watch(kB, now_);
  Pass(seconds(60), {kA, kB});
  EXPECT_EQ(TimeToSuspicion({kB}), DetectorOptions{}.floor);
  EXPECT_EQ(suspects_, std::vector<WorkerId>{kA});
}

TEST_F(FailureDetectorTest, AWorkerNeverHeardHasTheWholeLimit) {
  detector_.Watch(kA, now_);
  EXPECT_EQ(TimeToSuspicion({}), DetectorOptions{}.limit);
}

TEST_F(FailureDetectorTest, OneLateBeatMakesItPatientAndMinutesMakeItQuickAgain) {
  detector_.Watch(kA, now_);
  Pass(seconds(60), {kA});
  EXPECT_EQ(detector_.Allowed(kA), DetectorOptions{}.floor);
  Pass(milliseconds(500), {});  // two beats lost
  Pass(milliseconds(250), {kA});
  EXPECT_GT(detector_.Allowed(kA), milliseconds(2000));
  Pass(seconds(15 * 60), {kA});
  EXPECT_EQ(detector_.Allowed(kA), DetectorOptions{}.floor);
}

TEST_F(FailureDetectorTest, AWorkerThatSaysWhenItsNextBeatComesIsNotSuspectedBefore) {
  detector_.Watch(kA, now_);
  for (int i = 0; i < 200; ++i) {
    detector_.OnBeat(kA, now_, seconds(4));
    Pass(seconds(4), {});
  }
  detector_.OnBeat(kA, now_, seconds(4));
  EXPECT_EQ(TimeToSuspicion({}), DetectorOptions{}.floor + milliseconds(3750));
  detector_.OnBeat(kA, now_, std::chrono::hours(1));
  EXPECT_LT(TimeToSuspicion({}), seconds(40)) << "whatever it says, it is noticed";
}

TEST_F(FailureDetectorTest, AWorkerOfALargeSwarmMayBeatMoreOftenAgain) {
  detector_.Watch(kA, now_);
  detector_.OnBeat(kA, now_, seconds(4));
  Pass(seconds(1), {});
  Pass(seconds(60), {kA});
  EXPECT_EQ(TimeToSuspicion({}), DetectorOptions{}.floor);
}

TEST(HeartbeatPeriodTest, AllTogetherSendTheTrainerABoundedNumber) {
  EXPECT_EQ(HeartbeatPeriod(0), seconds(1));
  EXPECT_EQ(HeartbeatPeriod(1), milliseconds(250));
  EXPECT_EQ(HeartbeatPeriod(62), milliseconds(250));
  EXPECT_EQ(HeartbeatPeriod(63), milliseconds(500));
  EXPECT_EQ(HeartbeatPeriod(1000), seconds(4));
}

TEST_F(FailureDetectorTest, HoweverLateTheBeatsTheLimitHolds) {
  detector_.Watch(kA, now_);
  for (int i = 0; i < 100; ++i) {
    Pass(milliseconds(2500), {});
    detector_.OnBeat(kA, now_);
  }
  EXPECT_TRUE(suspects_.empty());
  EXPECT_EQ(TimeToSuspicion({}), DetectorOptions{}.limit);
}

TEST_F(FailureDetectorTest, ASuspectThatSpeaksIsNoSuspect) {
  detector_.Watch(kA, now_);
  TimeToSuspicion({});
  ASSERT_FALSE(suspects_.empty());
  Pass(milliseconds(250), {kA});
  EXPECT_TRUE(suspects_.empty());
}

TEST_F(FailureDetectorTest, TheForgottenAreNotSuspected) {
  detector_.Watch(kA, now_);
  detector_.Forget(kA);
  EXPECT_EQ(TimeToSuspicion({}), seconds(60));
}

TEST_F(FailureDetectorTest, AWorkerWatchedAnewBeginsAnew) {
  detector_.Watch(kA, now_);
  Pass(seconds(60), {kA});
  Pass(seconds(1), {});
  detector_.Watch(kA, now_);
  EXPECT_EQ(TimeToSuspicion({}), DetectorOptions{}.limit);
}

TEST_F(FailureDetectorTest, AWatcherThatWasStoppedSuspectsNobodyForIt) {
  detector_.Watch(kA, now_);
  Pass(seconds(60), {kA});
  now_ += seconds(30);  // SIGSTOP, SIGCONT; the tick runs before the beats that wait in the socket
  EXPECT_TRUE(detector_.Suspects(now_).empty());
  for (int i = 0; i < 120; ++i) detector_.OnBeat(kA, now_);
  EXPECT_EQ(detector_.Allowed(kA), DetectorOptions{}.floor) << "the pause was taken for lateness";
  EXPECT_EQ(TimeToSuspicion({}), DetectorOptions{}.floor);
}

TEST_F(FailureDetectorTest, WhoDiedWhileTheWatcherWasStoppedIsSuspectedAfterwards) {
  detector_.Watch(kA, now_);
  Pass(seconds(60), {kA});
  now_ += seconds(30);
  EXPECT_LE(TimeToSuspicion({}), DetectorOptions{}.floor);
}

TEST_F(FailureDetectorTest, AWatcherThatStumblesAgainAndAgainStillFindsTheSilent) {
  detector_.Watch(kA, now_);
  Pass(seconds(60), {kA});
  int stumbles = 0;
  for (; suspects_.empty() && stumbles < 1000; ++stumbles) {
    now_ += seconds(1);
    suspects_ = detector_.Suspects(now_);
  }
  EXPECT_LE(stumbles, 13);
}

TEST_F(FailureDetectorTest, TheDeadlineIsTheSuspicionOrATick) {
  detector_.Watch(kA, now_);
  EXPECT_EQ(detector_.NextDeadline(), now_ + DetectorOptions{}.tick);
  Pass(DetectorOptions{}.limit - milliseconds(50), {});
  EXPECT_EQ(detector_.NextDeadline(), now_ + milliseconds(50));
  EXPECT_EQ(detector_.Suspects(detector_.NextDeadline()), std::vector<WorkerId>{kA});
  EXPECT_EQ(detector_.NextDeadline(), now_ + milliseconds(50) + DetectorOptions{}.tick);
}

// The promised rates, in 2 * 10^6 worker-seconds each; bench/detector_bench.cc has more.

struct Rates {
  std::uint64_t false_alarms = 0;
  double detection_p99 = 0;
};

Rates Measure(const BadNetwork& network) {
  Rates rates;
  std::vector<double> detection;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const DetectorOutcome outcome = SimulateHeartbeats(
        network, 1000 + 0.25 * static_cast<double>(seed) / 2000, MixName(seed, "test"));
    rates.false_alarms += outcome.false_alarms;
    detection.push_back(outcome.detection_seconds);
  }
  std::sort(detection.begin(), detection.end());
  rates.detection_p99 = detection[detection.size() * 99 / 100];
  return rates;
}

TEST(FailureDetectorRateTest, LostBeatsAndJitterGiveNoFalseAlarm) {
  const Rates rates = Measure({.jitter_seconds = 0.2, .loss = 0.05});
  EXPECT_LE(rates.false_alarms, 2u);
  EXPECT_LE(rates.detection_p99, 3.0);
}

TEST(FailureDetectorRateTest, RetransmissionsOnTwoConnectionsGiveNoFalseAlarm) {
  const Rates rates =
      Measure({.jitter_seconds = 0.2, .loss = 0.05, .retransmits = true, .connections = 2});
  EXPECT_LE(rates.false_alarms, 2u);
  EXPECT_LE(rates.detection_p99, 3.0);
}

}  // namespace
}  // namespace swarm::protocol
