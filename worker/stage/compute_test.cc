#include "worker/stage/compute.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace swarm::stage {
namespace {

using Turn = std::shared_ptr<Compute::Turn>;

protocol::TaskKey Task(std::uint64_t step, std::uint64_t microbatch) {
  return {.step = protocol::Step(step), .microbatch = protocol::Microbatch(microbatch)};
}

TEST(ComputeTest, StateComesFirstThenOlderStepsThenBackwardThenForward) {
  std::string order;
  std::promise<void> gate, done;
  Compute compute;
  compute.PostState([&] { gate.get_future().wait(); });
  const auto add = [&](char c) { return [&order, c](const auto&...) { order.push_back(c); }; };
  compute.PostTask(Task(2, 0), ComputeKind::kForward,
                   [&](const Turn&) { order.push_back('g'), done.set_value(); });
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
  const auto add = [&](char c) { return [&order, c](const auto&...) { order.push_back(c); }; };
  compute.PostTask(Task(0, 0), ComputeKind::kBackward, add('x'));
  compute.PostState(add('a'));
  compute.PostTask(Task(0, 1), ComputeKind::kForward, add('x'));
  compute.DropTasks();
  EXPECT_EQ(compute.queued(), 2u);
  compute.PostTask(Task(1, 0), ComputeKind::kForward,
                   [&](const Turn&) { order.push_back('b'), done.set_value(); });
  gate.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "ab");
}

TEST(ComputeTest, AStageThatCollectsWorksWhenItHasAllThatItMayHave) {
  std::string order;
  std::promise<void> gate, done;
  std::vector<Turn> collected;
  Compute compute;
  compute.PostState([&] {
    compute.SetStage({.tasks_at_once = 3,
                      .work =
                          [&] {
                            if (collected.empty()) return false;
                            order += std::to_string(collected.size());
                            collected.clear();
                            if (order.size() == 2) done.set_value();
                            return true;
                          },
                      .abandon = [&] { collected.clear(); }});
    gate.get_future().wait();
  });
  for (std::uint64_t m = 0; m < 4; ++m) {
    compute.PostTask(Task(0, m), ComputeKind::kForward,
                     [&](const Turn& turn) { collected.push_back(turn); });
  }
  gate.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "31") << "three tasks have a turn at once";
}

TEST(ComputeTest, AStageThatCollectsIsAsPatientAsItsWorkIsLong) {
  using std::chrono::milliseconds;
  EXPECT_EQ(PatienceAfter(milliseconds(0)), milliseconds(0)) << "a device waits for nothing";
  EXPECT_EQ(PatienceAfter(milliseconds(160)), milliseconds(10));
  EXPECT_EQ(PatienceAfter(std::chrono::seconds(100)), milliseconds(200));
}

TEST(ComputeTest, WorkOnTheStateComesBetweenTheSegmentsOfAPass) {
  std::string order;
  std::promise<void> gate, done;
  std::vector<Turn> collected;
  Compute compute;
  compute.PostState([&] {
    compute.SetStage({.tasks_at_once = 3,
                      .work =
                          [&] {
                            if (collected.empty()) return false;
                            order += 's';
                            if (order == "s") {
                              compute.PostState([&] { order += 'a'; });
                            } else {
                              collected.clear();
                              done.set_value();
                            }
                            return true;
                          },
                      .in_pass = [&] { return !collected.empty(); },
                      .abandon = [&] { collected.clear(); }});
    gate.get_future().wait();
  });
  compute.PostTask(Task(0, 0), ComputeKind::kForward,
                   [&](const Turn& turn) { collected.push_back(turn); });
  gate.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "sas");
}

TEST(ComputeTest, StoppingAbandonsWhatWasCollected) {
  std::vector<Turn> collected;
  std::promise<void> given;
  Compute compute;
  compute.PostState([&] {
    compute.SetStage(
        {.tasks_at_once = 3, .work = [] { return false; }, .abandon = [&] { collected.clear(); }});
  });
  compute.PostTask(Task(0, 0), ComputeKind::kForward, [&](const Turn& turn) {
    collected.push_back(turn);
    given.set_value();
  });
  given.get_future().wait();
  compute.Stop();
  EXPECT_TRUE(collected.empty());
}

TEST(ComputeTest, AClosedTaskIsNotComputedAndItsNextAttemptIs) {
  std::string order;
  std::promise<void> gate, done;
  Compute compute;
  compute.PostState([&] { gate.get_future().wait(); });
  const auto add = [&](char c) { return [&order, c](const auto&...) { order.push_back(c); }; };
  compute.PostTask(Task(0, 0), ComputeKind::kForward, add('x'));
  compute.PostTask(Task(0, 0), ComputeKind::kBackward, add('x'));
  compute.PostTask(Task(0, 1), ComputeKind::kForward, add('a'));
  compute.Drop(Task(0, 0));
  compute.Drop(Task(0, 2));  // is not here
  EXPECT_EQ(compute.queued(), 2u);
  protocol::TaskKey again = Task(0, 0);
  again.attempt.n = 1;
  compute.PostTask(again, ComputeKind::kForward,
                   [&](const Turn&) { order.push_back('b'), done.set_value(); });
  gate.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "ab");
}

TEST(ComputeTest, ADeviceHasTwoTasksAndTheOrderOfTheOthersIsDecidedLate) {
  std::string order;
  std::vector<Turn> turns;
  std::promise<void> two, state, third;
  Compute compute;
  const auto submit = [&](char c, std::promise<void>* then) {
    return [&order, &turns, c, then](const Turn& turn) {
      order.push_back(c);
      turns.push_back(turn);
      if (then != nullptr) then->set_value();
    };
  };
  compute.PostTask(Task(1, 0), ComputeKind::kForward, submit('a', nullptr));
  compute.PostTask(Task(1, 1), ComputeKind::kForward, submit('b', &two));
  two.get_future().wait();
  compute.PostTask(Task(1, 2), ComputeKind::kForward, submit('x', nullptr));
  compute.PostTask(Task(1, 1), ComputeKind::kBackward, submit('d', &third));
  // Work on the state waits for no turn.
  compute.PostState([&] { order.push_back('c'), state.set_value(); });
  state.get_future().wait();
  EXPECT_EQ(order, "abc");
  EXPECT_GE(turns.front()->Finish().seconds(), 0);
  turns.front().reset();
  third.get_future().wait();
  EXPECT_EQ(order, "abcd");
  compute.DropTasks();
  turns.clear();
}

TEST(ComputeTest, AStopWaitsForTheResultsOfTasks) {
  std::promise<Turn> submitted;
  Compute compute;
  compute.PostTask(Task(0, 0), ComputeKind::kForward,
                   [&](const Turn& turn) { submitted.set_value(turn); });
  Turn turn = submitted.get_future().get();
  bool is_there = false;
  std::thread device([&] {
    is_there = true;
    turn.reset();
  });
  compute.Stop();
  EXPECT_TRUE(is_there);
  device.join();
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
