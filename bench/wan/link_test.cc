#include "bench/wan/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace swarm::wan {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Timepoint kStart{seconds(1000)};
constexpr std::uint64_t kPacket = 1500;

LinkOptions Megabits(double rate) {
  return {.bits_per_second = rate * 1e6, .delay = milliseconds(40), .queue_bytes = 1u << 20};
}

/// Keeps the link busy for `length` and returns the bytes that came out in that time.
std::uint64_t Saturate(Link& link, Duration length) {
  std::uint64_t arrived = 0;
  for (Timepoint now = kStart; now < kStart + length; now += microseconds(10)) {
    const auto due = link.Send(kPacket, now);
    if (!due) continue;
    link.Deliver(kPacket);
    if (*due < kStart + length) arrived += kPacket;
  }
  return arrived;
}

TEST(LinkTest, APacketTakesItsTimeOnTheWireAndThenTheDelay) {
  Link link(Megabits(12), 1);  // 1 ms for a packet
  EXPECT_EQ(link.Send(kPacket, kStart), kStart + milliseconds(41));
}

TEST(LinkTest, PacketsThatComeTogetherLeaveOneAfterTheOther) {
  Link link(Megabits(12), 1);
  link.Send(kPacket, kStart);
  EXPECT_EQ(link.Send(kPacket, kStart), kStart + milliseconds(42));
  EXPECT_EQ(link.QueuedBytes(kStart), 2 * kPacket);
}

TEST(LinkTest, AnIdleWireSavesNothingUp) {
  Link link(Megabits(12), 1);
  link.Send(kPacket, kStart);
  const Timepoint later = kStart + seconds(10);
  EXPECT_EQ(link.Send(kPacket, later), later + milliseconds(41));
  EXPECT_EQ(link.Send(kPacket, later), later + milliseconds(42));
}

TEST(LinkTest, NoMoreComesOutThanTheRateAllowsAndNoLess) {
  for (const double rate : {80, 200, 500}) {
    Link link(Megabits(rate), 1);
    const double bits = 8.0 * static_cast<double>(Saturate(link, seconds(2)));
    EXPECT_NEAR(bits / (rate * 1e6 * 1.96), 1, 0.001) << rate << " Mb/s";
  }
}

TEST(LinkTest, WhatFindsTheQueueFullIsDropped) {
  LinkOptions options = Megabits(12);
  options.queue_bytes = 10 * kPacket;
  Link link(options, 1);
  int admitted = 0;
  for (int i = 0; i < 100; ++i) admitted += link.Send(kPacket, kStart).has_value();
  EXPECT_EQ(admitted, 10);
  EXPECT_EQ(link.counts().dropped, 90u);
  EXPECT_TRUE(link.Send(kPacket, kStart + milliseconds(1))) << "one has left";
}

TEST(LinkTest, AFreeWireTakesAPacketThatIsLargerThanTheQueue) {
  LinkOptions options = Megabits(12);
  options.queue_bytes = 100;
  Link link(options, 1);
  EXPECT_TRUE(link.Send(kPacket, kStart));
  EXPECT_FALSE(link.Send(kPacket, kStart));
}

TEST(LinkTest, PacketsAreLostAsOftenAsAskedAndUseTheWire) {
  LinkOptions options = Megabits(200);
  options.loss = 0.1;
  Link link(options, 7);
  const double bits = 8.0 * static_cast<double>(Saturate(link, seconds(2)));
  EXPECT_NEAR(bits / (200e6 * 1.96), 0.9, 0.01);
  const LinkCounts& counts = link.counts();
  EXPECT_NEAR(static_cast<double>(counts.lost) / static_cast<double>(counts.lost + counts.packets),
              0.1, 0.01);
}

TEST(LinkTest, TheSameSeedLosesTheSamePackets) {
  LinkOptions options = Megabits(200);
  options.loss = 0.5;
  Link one(options, 3), same(options, 3), other(options, 4);
  bool differs = false;
  for (int i = 0; i < 200; ++i) {
    const auto due = one.Send(kPacket, kStart);
    EXPECT_EQ(due, same.Send(kPacket, kStart));
    differs |= due != other.Send(kPacket, kStart);
  }
  EXPECT_TRUE(differs);
}

TEST(LinkTest, AnUnlimitedLinkOnlyDelays) {
  Link link({.delay = milliseconds(5)}, 1);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(link.Send(kPacket, kStart), kStart + milliseconds(5));
}

TEST(LinkTest, WhatIsOnTheWayIsBoundedEvenOnAnUnlimitedLink) {
  Link link({.delay = milliseconds(5), .transit_bytes_max = 3 * kPacket}, 1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(link.Send(kPacket, kStart));
  EXPECT_FALSE(link.Send(kPacket, kStart));
  link.Deliver(kPacket);
  EXPECT_TRUE(link.Send(kPacket, kStart));
}

TEST(LinkTest, PacketsComeOutInTheOrderOfTheirSending) {
  Rng rng(5);
  Link link(Megabits(80), 1);
  Timepoint now = kStart, last = kStart;
  for (int i = 0; i < 10000; ++i) {
    now += microseconds(rng.Below(300));
    const std::uint64_t bytes = 40 + rng.Below(1460);
    const auto due = link.Send(bytes, now);
    if (!due) continue;
    EXPECT_GE(*due, last);
    last = *due;
    link.Deliver(bytes);
  }
}

}  // namespace
}  // namespace swarm::wan
