#include "worker/page/state/lanes.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace swarm::page {
namespace {

using nlohmann::json;
using protocol::Heartbeat;
using protocol::WorkerId;
using std::chrono::milliseconds;
using std::chrono::seconds;

const WorkerId kA("a");
constexpr std::int64_t kEver = -1;

class LanesTest : public testing::Test {
 protected:
  void Beat(Duration after, const Heartbeat& beat, const WorkerId& worker = kA) {
    now_ += after;
    lanes_.OnBeat(worker, beat, now_);
  }
  std::vector<LaneSlot> Slots() const {
    const auto lanes = lanes_.Since(kEver, now_);
    return lanes.empty() ? std::vector<LaneSlot>() : lanes.front().slots;
  }

  Timepoint now_{seconds(1000)};  // a slot begins
  Lanes lanes_;
};

TEST_F(LanesTest, WhatABeatTellsBelongsToTheTimeSinceTheOneBefore) {
  Beat({}, {.bytes_sent = 100, .busy_seconds = 5, .sum_seconds = 1});
  EXPECT_TRUE(Slots().empty()) << "what was before the first beat is unknown";
  Beat(seconds(1), {.bytes_sent = 400, .busy_seconds = 5.5, .copied_bytes = 100, .sum_seconds = 1});
  Beat(milliseconds(2000),
       {.bytes_sent = 800, .busy_seconds = 6.5, .copied_bytes = 100, .sum_seconds = 3});
  const auto slots = Slots();
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[0].slot, 500);
  EXPECT_DOUBLE_EQ(slots[0].seconds, 2);
  EXPECT_DOUBLE_EQ(slots[0].compute_seconds, 0.5 + 0.5);
  EXPECT_DOUBLE_EQ(slots[0].sum_seconds, 0 + 1);
  EXPECT_DOUBLE_EQ(slots[0].bytes, 400 + 200);
  EXPECT_DOUBLE_EQ(slots[1].seconds, 1);
  EXPECT_DOUBLE_EQ(slots[1].compute_seconds, 0.5);
}

TEST_F(LanesTest, AWorkerThatIsNotHeardHasAGap) {
  Beat({}, {});
  Beat(seconds(2), {.busy_seconds = 2});
  Beat(seconds(60), {.busy_seconds = 60});
  Beat(seconds(2), {.busy_seconds = 62});
  const auto slots = Slots();
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[1].slot - slots[0].slot, 31);
}

TEST_F(LanesTest, AProcessThatBeginsAnewAndNumbersThatAreNoneAddNothing) {
  Beat({}, {.bytes_sent = 1000, .busy_seconds = 100});
  Beat(seconds(1), {.bytes_sent = 0, .busy_seconds = 0});
  Beat(seconds(1), {.busy_seconds = std::numeric_limits<double>::quiet_NaN(),
                    .sum_seconds = std::numeric_limits<double>::infinity()});
  for (const LaneSlot& slot : Slots()) {
    EXPECT_EQ(slot.compute_seconds + slot.sum_seconds + slot.bytes, 0);
  }
}

TEST_F(LanesTest, OnlyTheLastMinutesAreKeptAndOnlyWhatIsNewIsTold) {
  for (int i = 0; i < 1001; ++i) Beat(seconds(1), {.busy_seconds = 1.0 * i});
  const auto slots = Slots();
  EXPECT_EQ(slots.size(), static_cast<std::size_t>(Lanes::kSlots));
  EXPECT_EQ(slots.back().slot, Lanes::SlotOf(now_));
  EXPECT_EQ(lanes_.Since(slots.back().slot - 3, now_).front().slots.size(), 3u);
  EXPECT_TRUE(lanes_.Since(slots.back().slot, now_).empty());
  EXPECT_TRUE(lanes_.Since(kEver, now_ + Lanes::kSlots * Lanes::kSlot).empty());
}

TEST_F(LanesTest, OfTooManyWorkersTheOneThatWasHeardLeastLatelyGoes) {
  for (std::size_t i = 0; i <= Lanes::kLanesMax; ++i) {
    const WorkerId worker("w" + std::to_string(i));
    Beat(milliseconds(1), {}, worker);
    lanes_.OnBeat(worker, {.busy_seconds = 0.001}, now_ + milliseconds(1));
  }
  const auto lanes = lanes_.Since(kEver, now_);
  EXPECT_EQ(lanes.size(), Lanes::kLanesMax);
  for (const Lane& lane : lanes) EXPECT_NE(lane.worker, WorkerId("w0"));
}

TEST_F(LanesTest, TheJsonHasSharesAndWhoWasLost) {
  Beat({}, {});
  Beat(seconds(1), {.bytes_sent = 500, .busy_seconds = 0.25, .sum_seconds = 7});
  const LanesView view{.slot = Lanes::SlotOf(now_),
                       .lanes = lanes_.Since(kEver, now_),
                       .lost = {{.number = 1,
                                 .worker = WorkerId("b"),
                                 .stage = protocol::StageIndex(2),
                                 .cause = protocol::EvictionCause::kSilent,
                                 .text = "no sign of life",
                                 .time = 990}}};
  EXPECT_EQ(json::parse(ToJson(view, 1000)), json::parse(R"({
      "slot": 500, "slotSeconds": 2.0, "slots": 150,
      "lanes": [{"id": "a", "slots": [[500, 50, 25, 100, 500.0]]}],
      "lost": [{"id": "b", "stage": 2, "cause": "Silent", "text": "no sign of life",
                "ago": 10.0}]})"));
}

}  // namespace
}  // namespace swarm::page
