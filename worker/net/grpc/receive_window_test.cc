#include "worker/net/grpc/receive_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace swarm::net {
namespace {

using std::chrono::milliseconds;

constexpr Duration kRoundTrip = milliseconds(80);
constexpr double kFits = 2e6;  // bytes in a round trip: 200 Mb/s

/// A receiver that looks regularly, and its last decision.
class Receiver {
 public:
  Receiver() { Take(0, ReceiveWindow::kLookPeriod); }
  /// Bytes arrive evenly, `per_round_trip` of them, for so long.
  void Take(double per_round_trip, Duration length) {
    for (const Timepoint end = at_ + length; at_ < end;) {
      at_ += ReceiveWindow::kLookPeriod;
      bytes_ += per_round_trip * ToSeconds(ReceiveWindow::kLookPeriod) / ToSeconds(kRoundTrip);
      bound_ = window_.OnArrivals({at_, static_cast<std::uint64_t>(bytes_), kRoundTrip});
    }
  }
  /// `bytes` arrive at once, and nothing more for `length`.
  void TakeBurst(double bytes, Duration length) {
    bytes_ += bytes;
    Take(0, length);
  }
  std::uint64_t bound() const { return bound_; }
  /// In parts of what fits into the path.
  double room() const { return static_cast<double>(bound_) / kFits; }

 private:
  ReceiveWindow window_;
  Timepoint at_{std::chrono::hours(1)};
  double bytes_ = 0;
  std::uint64_t bound_ = 0;
};

TEST(ReceiveWindowTest, AFullPathIsOfferedALittleMoreThanFitsIntoIt) {
  Receiver receiver;
  receiver.Take(kFits, milliseconds(500));
  EXPECT_NEAR(receiver.room(), ReceiveWindow::kRoom, 0.01);
}

TEST(ReceiveWindowTest, SlowStartMeetsNoBound) {
  Receiver receiver;
  for (double sent = 20e3; sent < kFits; sent *= 2) {
    receiver.Take(sent, kRoundTrip);
    EXPECT_EQ(receiver.bound(), 0u) << sent;
  }
}

TEST(ReceiveWindowTest, SilenceChangesNothing) {
  Receiver receiver;
  receiver.Take(kFits, milliseconds(500));
  receiver.Take(0, std::chrono::minutes(10));
  EXPECT_NEAR(receiver.room(), ReceiveWindow::kRoom, 0.01);
  receiver.Take(kFits / 10, milliseconds(500));  // a sender that begins carefully
  EXPECT_NEAR(receiver.room(), ReceiveWindow::kRoom, 0.01);
}

TEST(ReceiveWindowTest, APathThatBecomesFasterIsFollowedWithinASecond) {
  Receiver receiver;
  receiver.Take(kFits, std::chrono::seconds(60));
  for (Duration time{}; time < std::chrono::seconds(1); time += kRoundTrip) {
    const double offered = receiver.bound() == 0 ? 1e9 : static_cast<double>(receiver.bound());
    receiver.Take(std::min(offered, 8 * kFits), kRoundTrip);
  }
  EXPECT_GT(receiver.room(), 8);
}

TEST(ReceiveWindowTest, WhatAPathCarriedBeforeItBecameSlowerIsForgotten) {
  Receiver receiver;
  receiver.Take(kFits, milliseconds(500));
  receiver.Take(kFits / 2, ReceiveWindow::kMemory + std::chrono::seconds(1));
  EXPECT_NEAR(receiver.room(), ReceiveWindow::kRoom / 2, 0.01);
}

TEST(ReceiveWindowTest, BurstsFindRoomForTheLargestOfThem) {
  Receiver receiver;
  for (int i = 0; i < 100; ++i) {
    receiver.TakeBurst(i % 10 == 0 ? kFits : kFits / 4, milliseconds(400));
    if (i > 0) {
      EXPECT_GE(receiver.room(), 1) << i;
    }
  }
}

TEST(ReceiveWindowTest, ALittleTrafficIsNotBound) {
  Receiver receiver;
  for (int i = 0; i < 100; ++i) {
    receiver.TakeBurst(200e3, milliseconds(100));
    EXPECT_EQ(receiver.bound(), 0u) << i;
  }
}

TEST(ReceiveWindowTest, WithoutAMeasuredRoundTripItIsBoundMuchLater) {
  ReceiveWindow window;
  Timepoint at{std::chrono::hours(1)};
  std::uint64_t bound = 0;
  for (std::uint64_t bytes = 0; bytes < 100'000'000; bytes += 1'000'000) {
    bound = window.OnArrivals(
        {at += ReceiveWindow::kLookPeriod, bytes, std::chrono::microseconds(UINT32_MAX)});
  }
  EXPECT_TRUE(bound == 0 || bound > 20'000'000) << bound;
}

}  // namespace
}  // namespace swarm::net
