#include "ctl/simulate/fleet/flow_network.h"

#include <gtest/gtest.h>

namespace swarm::ctl {
namespace {

class FlowNetworkTest : public testing::Test {
 protected:
  /// Starts a flow of so many bytes; its end is written to `*end`, in seconds.
  FlowNetwork::FlowId Start(FlowNetwork::Node from, FlowNetwork::Node to, double bytes, double* end,
                            double weight = 1) {
    return network_.Start(
        {.from = from, .to = to, .bytes = bytes, .weight = weight, .done = [=, this](double) {
           *end = Now();
         }});
  }
  double Now() const { return ToSeconds(queue_.now() - begin_); }
  void RunUntil(double seconds) { queue_.RunUntil(begin_ + FromSeconds(seconds)); }

  EventQueue queue_;
  const Timepoint begin_ = queue_.now();
  FlowNetwork network_{&queue_};
  FlowNetwork::Node slow_ = network_.Add(100, 50);
  FlowNetwork::Node fast_ = network_.Add(1000, 1000);
  FlowNetwork::Node other_ = network_.Add(kUnlimited, kUnlimited);
  double first_ = 0, second_ = 0;
};

TEST_F(FlowNetworkTest, OneFlowHasTheSlowerOfTheTwoLines) {
  Start(slow_, fast_, 1000, &first_);
  Start(fast_, slow_, 1000, &second_);
  RunUntil(100);
  EXPECT_NEAR(first_, 10, 1e-6);
  EXPECT_NEAR(second_, 20, 1e-6);
}

TEST_F(FlowNetworkTest, FlowsShareALineUntilOneOfThemEnds) {
  Start(slow_, fast_, 1000, &first_);
  Start(slow_, other_, 500, &second_);
  RunUntil(100);
  EXPECT_NEAR(second_, 10, 1e-6);
  EXPECT_NEAR(first_, 15, 1e-6);
}

TEST_F(FlowNetworkTest, AFlowThatBeginsLaterSlowsTheOthersDown) {
  Start(slow_, fast_, 1000, &first_);
  RunUntil(5);
  Start(slow_, other_, 1000, &second_);
  RunUntil(100);
  EXPECT_NEAR(first_, 15, 1e-6);
  EXPECT_NEAR(second_, 20, 1e-6);
}

TEST_F(FlowNetworkTest, AFlowOfManyConnectionsHasTheirShares) {
  Start(slow_, slow_, 300, &first_, 3);  // both ways at once
  Start(slow_, other_, 1000, &second_);
  RunUntil(100);
  // 50 bytes a second arrive at most, and 25 a second are left for the other at first.
  EXPECT_NEAR(first_, 6, 1e-6);
  EXPECT_NEAR(second_, 6 + (1000 - 6 * 25) / 100.0, 1e-6);
}

TEST_F(FlowNetworkTest, AConnectionHasALimitOfItsOwn) {
  network_.Start({.from = other_, .to = fast_, .bytes = 1000, .rate_max = 10, .done = [this](double) {
                    first_ = Now();
                  }});
  RunUntil(1000);
  EXPECT_NEAR(first_, 100, 1e-6);
}

TEST_F(FlowNetworkTest, AConnectionSendsOneFlowAfterTheOther) {
  Start(slow_, fast_, 1000, &first_);
  Start(slow_, fast_, 1000, &second_);
  RunUntil(100);
  EXPECT_NEAR(first_, 10, 1e-6);
  EXPECT_NEAR(second_, 20, 1e-6);
  EXPECT_EQ(network_.flows(), 0u);
}

TEST_F(FlowNetworkTest, WhatWaitsForAConnectionGoesWithItsMachine) {
  Start(fast_, slow_, 1000, &first_);
  Start(fast_, slow_, 1000, &second_);
  network_.Remove(slow_);
  EXPECT_EQ(network_.flows(), 0u);
  Start(fast_, slow_, 500, &second_);  // the machine is there again
  RunUntil(100);
  EXPECT_EQ(first_, 0);
  EXPECT_NEAR(second_, 10, 1e-6);
}

TEST_F(FlowNetworkTest, AMachineThatGoesTakesItsFlowsAlong) {
  const auto flow = Start(slow_, fast_, 1000, &first_);
  Start(fast_, other_, 10000, &second_);
  RunUntil(4);
  EXPECT_NEAR(network_.Left(flow), 600, 1e-3);
  network_.Remove(slow_);
  EXPECT_EQ(network_.Left(flow), 0);
  RunUntil(100);
  EXPECT_EQ(first_, 0);
  EXPECT_NEAR(second_, 10, 1e-6);
  EXPECT_EQ(network_.flows(), 0u);
}

TEST_F(FlowNetworkTest, NothingTakesTimeWithoutLimits) {
  const auto unlimited = network_.Add(kUnlimited, kUnlimited);
  first_ = -1;
  Start(unlimited, other_, 1e12, &first_);
  RunUntil(1);
  EXPECT_EQ(first_, 0);
}

}  // namespace
}  // namespace swarm::ctl
