#include "worker/stage/compute.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace swarm::stage {
namespace {

protocol::TaskKey Task(std::uint64_t step, std::uint64_t microbatch) {
  return {.step = protocol::Step(step), .microbatch = protocol::Microbatch(microbatch)};
}

TEST(ComputeTest, StateComesFirstThenOlderStepsThenBackwardThenForward) {
  std::string order;
  std::promise<void> gate, done;
  Compute compute;
  compute.PostState([&] { gate.get_future().wait(); });
  const auto add = [&](char c) { return [&order, c] { order.push_back(c); }; };
  compute.PostTask(Task(2, 0), ComputeKind::kForward,
                   [&] { order.push_back('g'), done.set_value(); });
  compute.PostTask(Task(1, 0), ComputeKind::kForward, add('e'));
  compute.PostTask(Task(1, 1), ComputeKind::kForward, add('f'));
  compute.PostTask(Task(1, 2), ComputeKind::kBackward, add('d'));
  compute.PostTask(Task(0, 0), ComputeKind::kForward, add('c'));
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
  compute.PostTask(Task(0, 0), ComputeKind::kBackward, add('x'));
  compute.PostState(add('a'));
  compute.PostTask(Task(0, 1), ComputeKind::kForward, add('x'));
  compute.DropTasks();
  EXPECT_EQ(compute.queued(), 2u);
  compute.PostTask(Task(1, 0), ComputeKind::kForward,
                   [&] { order.push_back('b'), done.set_value(); });
  gate.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "ab");
}

TEST(ComputeTest, AClosedTaskIsNotComputedAndItsNextAttemptIs) {
  std::string order;
  std::promise<void> gate, done;
  Compute compute;
  compute.PostState([&] { gate.get_future().wait(); });
  const auto add = [&](char c) { return [&order, c] { order.push_back(c); }; };
  compute.PostTask(Task(0, 0), ComputeKind::kForward, add('x'));
  compute.PostTask(Task(0, 0), ComputeKind::kBackward, add('x'));
  compute.PostTask(Task(0, 1), ComputeKind::kForward, add('a'));
  compute.Drop(Task(0, 0));
  compute.Drop(Task(0, 2));  // is not here
  EXPECT_EQ(compute.queued(), 2u);
  protocol::TaskKey again = Task(0, 0);
  again.attempt.n = 1;
  compute.PostTask(again, ComputeKind::kForward, [&] { order.push_back('b'), done.set_value(); });
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
