#include "worker/trainer/traffic_count.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace swarm::trainer {
namespace {

using protocol::Heartbeat;
using protocol::RegionTraffic;
using protocol::WorkerId;
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

const WorkerId kInEu("a"), kInUs("b"), kInAsia("c");

class TrafficCountTest : public testing::Test {
 protected:
  TrafficCountTest() {
    count_.Watch(kInEu, "eu");
    count_.Watch(kInUs, "us");
    count_.Watch(kInAsia, "asia");
    for (const WorkerId& each : {kInEu, kInUs, kInAsia}) Beat(each, {});
  }

  void Beat(const WorkerId& worker, std::vector<Heartbeat::Exchanged> exchanged, int seconds = 0) {
    count_.OnBeat(worker, {.exchanged = std::move(exchanged)}, At(seconds));
  }
  static Timepoint At(int seconds) {
    return Timepoint() + std::chrono::hours(1) + std::chrono::seconds(seconds);
  }
  std::vector<RegionTraffic> Read(int seconds = 0) const { return count_.Read(At(seconds)); }

  TrafficCount count_;
};

auto Pair(const std::string& a, const std::string& b, std::uint64_t bytes) {
  return AllOf(Field(&RegionTraffic::a, a), Field(&RegionTraffic::b, b),
               Field(&RegionTraffic::bytes, bytes));
}

TEST_F(TrafficCountTest, APairHasWhatWorkersOfBothItsRegionsTell) {
  Beat(kInEu, {{"asia", 10}, {"us", 100}});
  Beat(kInUs, {{"eu", 1000}});
  Beat(kInEu, {{"asia", 10}, {"us", 150}});
  EXPECT_THAT(Read(), ElementsAre(Pair("asia", "eu", 10), Pair("eu", "us", 1150)));
}

TEST_F(TrafficCountTest, WhatAWorkerHadExchangedBeforeItsFirstBeatIsOfTheTrainerBefore) {
  const WorkerId old("d");
  count_.Watch(old, "eu");
  Beat(old, {{"us", 5000}});
  EXPECT_THAT(Read(), IsEmpty());
  Beat(old, {{"us", 5007}});
  EXPECT_THAT(Read(), ElementsAre(Pair("eu", "us", 7)));
}

TEST_F(TrafficCountTest, AHelloOfTheSameProcessBeginsNothingAnew) {
  Beat(kInEu, {{"us", 100}});
  count_.Watch(kInEu, "eu");
  Beat(kInEu, {{"us", 110}});
  EXPECT_THAT(Read(), ElementsAre(Pair("eu", "us", 110)));
}

TEST_F(TrafficCountTest, AWorkerThatBeginsAnewTakesNothingBack) {
  Beat(kInEu, {{"us", 100}});
  Beat(kInEu, {{"us", 30}});
  EXPECT_THAT(Read(), ElementsAre(Pair("eu", "us", 130)));
  count_.Forget(kInEu);
  EXPECT_THAT(Read(), ElementsAre(Pair("eu", "us", 130)));
}

TEST_F(TrafficCountTest, RegionsThatNoWorkerHasComeFromCountNothing) {
  count_.Watch(WorkerId("nowhere"), "");
  Beat(WorkerId("nowhere"), {});
  Beat(WorkerId("nowhere"), {{"us", 100}});
  Beat(WorkerId("stranger"), {{"us", 100}});
  Beat(kInEu, {{"", 1}, {"eu", 2}, {"mars", 3}});
  EXPECT_THAT(Read(), IsEmpty());
}

TEST_F(TrafficCountTest, ItHasABoundedNumberOfRegions) {
  for (std::size_t i = 0; i < 2 * TrafficCount::kRegionsMax; ++i) {
    const std::string region = "r" + std::to_string(i);
    count_.Watch(WorkerId(region), region);
    Beat(kInEu, {{region, 1}});
  }
  EXPECT_EQ(Read().size(), TrafficCount::kRegionsMax - 3);  // "eu", "us" and "asia" came first
}

TEST_F(TrafficCountTest, TheRateIsThatOfTheLastMinuteAndFalls) {
  std::uint64_t bytes = 0;
  for (int second = 1; second <= 600; ++second) Beat(kInEu, {{"us", bytes += 1000}}, second);
  EXPECT_NEAR(Read(600).at(0).bytes_per_second, 1000, 20);
  EXPECT_NEAR(Read(660).at(0).bytes_per_second, 1000 / 2.718, 20);
  EXPECT_LT(Read(1200).at(0).bytes_per_second, 1);
  EXPECT_EQ(Read(1200).at(0).bytes, 600000u);
}

}  // namespace
}  // namespace swarm::trainer
