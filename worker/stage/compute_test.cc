#include "worker/stage/compute.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace swarm::stage {
namespace {

TEST(ComputeTest, StateComesFirstThenOlderStepsThenBackwardThenForward) {
  std::string order;
  std::promise<void> gate, done;
  Compute compute;
  compute.PostState([&] { gate.get_future().wait(); });
  const auto add = [&](char c) { return [&order, c] { order.push_back(c); }; };
  using protocol::Step;
  compute.PostTask(Step(2), ComputeKind::kForward, [&] { order.push_back('g'), done.set_value(); });
  compute.PostTask(Step(1), ComputeKind::kForward, add('e'));
  compute.PostTask(Step(1), ComputeKind::kForward, add('f'));
  compute.PostTask(Step(1), ComputeKind::kBackward, add('d'));
  compute.PostTask(Step(0), ComputeKind::kForward, add('c'));
  compute.PostState(add('a'));
  compute.PostState(add('b'));
  gate.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "abcdefg");
}

TEST(ComputeTest, TasksCanBeDroppedAndTheStatesWorkStays) {
  std::string order;
  std::promise<void> gate, done;
  Compute compute;
  compute.PostState([&] { gate.get_future().wait(); });
  const auto add = [&](char c) { return [&order, c] { order.push_back(c); }; };
  compute.PostTask(protocol::Step(0), ComputeKind::kBackward, add('x'));
  compute.PostState(add('a'));
  compute.PostTask(protocol::Step(0), ComputeKind::kForward, add('x'));
  compute.DropTasks();
  EXPECT_EQ(compute.queued(), 2u);
  compute.PostTask(protocol::Step(1), ComputeKind::kForward,
                   [&] { order.push_back('b'), done.set_value(); });
  gate.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "ab");
}

TEST(ComputeTest, WorkAfterStopIsDropped) {
  Compute compute;
  compute.Stop();
  bool ran = false;
  compute.PostState([&] { ran = true; });
  compute.Stop();
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace swarm::stage
