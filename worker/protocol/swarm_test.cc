// Coordinator and replicas together, with messages delivered in any order that keeps each pair's
// own: the contributions of every step are exactly one for each (microbatch, stage), and the
// weights are those of a loop that knows nothing of any of this. "Gradients" are integers that
// depend on (step, microbatch, stage, version), so that a lost, doubled or stale one shows in the
// sum.
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "base/rng.h"
#include "worker/protocol/coordinator.h"
#include "worker/protocol/replica.h"

namespace swarm::protocol {
namespace {

const WorkerId kTrainer("trainer");

std::uint64_t Gradient(const TaskKey& key, Version version, std::uint64_t weight) {
  return MixAll(key.step.value, key.microbatch.value, key.stage.value, version.value, weight);
}

struct Swarm {
  struct Worker {
    std::unique_ptr<Replica> replica;
    StageIndex stage;
    std::map<Version, std::uint64_t> weights;
    std::map<TaskKey, std::uint64_t> fresh;
    std::map<TaskKey, Version> version_of;
    std::map<Step, std::uint64_t> accumulators;
    std::map<Step, std::uint64_t> reduced;
  };

  Swarm(std::vector<std::uint64_t> replicas, std::uint64_t microbatches, std::uint64_t steps,
        bool delayed, std::uint64_t seed)
      : microbatches(microbatches), delayed(delayed), rng(seed) {
    std::uint64_t count = 0;
    for (const auto n : replicas) count += n;
    coordinator = std::make_unique<Coordinator>(
        CoordinatorOptions{.replicas = replicas,
                           .microbatches = microbatches,
                           .max_steps = steps,
                           .delayed = delayed,
                           .seed = seed,
                           .learning_rate = [](Step) { return 1.0; }});
    stages = replicas.size();
    for (std::uint64_t i = 0; i < count; ++i) {
      Carry(coordinator->OnHello({.id = WorkerId("w" + std::to_string(i))}, {}));
    }
  }

  void Post(const WorkerId& from, const WorkerId& to, Message message) {
    links[{from, to}].push_back(std::move(message));
  }

  void Carry(Orders orders) {
    for (Order& order : orders) {
      if (auto* tell = std::get_if<order::Tell>(&order)) {
        Post(kTrainer, tell->to, std::move(tell->message));
      } else if (auto* issue = std::get_if<order::Issue>(&order)) {
        const WorkerId to = issue->frame.hops[0].worker;
        Post(kTrainer, to, std::move(issue->frame));
      } else if (auto* done = std::get_if<order::StepDone>(&order)) {
        committed.push_back(done->record.step);
      } else if (auto* finish = std::get_if<order::Finish>(&order)) {
        finished = true;
        succeeded = finish->succeeded;
        reason = finish->reason;
      }
    }
  }

  void Act(const WorkerId& id, const Actions& actions) {
    Worker& worker = workers.at(id);
    for (const Action& action : actions) {
      std::visit([&](const auto& a) { Do(id, worker, a); }, action);
    }
  }
  void Do(const WorkerId& id, Worker& worker, const action::RunForward& a) {
    worker.version_of[a.key] = a.version;
    later.push_back(
        [=, this] { Act(id, workers.at(id).replica->OnForwardDone(a.key, 1.0, {0.1})); });
  }
  void Do(const WorkerId& id, Worker& worker, const action::RunBackward& a) {
    const Version version = worker.version_of.at(a.key);
    ASSERT_TRUE(worker.weights.contains(version)) << "a version was overwritten while it was read";
    worker.fresh[a.key] = Gradient(a.key, version, worker.weights.at(version));
    later.push_back([=, this] { Act(id, workers.at(id).replica->OnBackwardDone(a.key, {0.2})); });
  }
  void Do(const WorkerId& id, Worker&, const action::SendForward& a) { Post(id, a.to, a.message); }
  void Do(const WorkerId& id, Worker&, const action::SendBackward& a) { Post(id, a.to, a.message); }
  void Do(const WorkerId&, Worker& worker, const action::FoldGradients& a) {
    worker.accumulators[a.key.step] += worker.fresh.at(a.key);
    worker.fresh.erase(a.key);
    EXPECT_TRUE(contributions.insert({a.key.step, a.key.microbatch, a.key.stage}).second);
  }
  void Do(const WorkerId&, Worker& worker, const action::DropTask& a) { worker.fresh.erase(a.key); }
  void Do(const WorkerId& id, Worker& worker, const action::StartReduce& a) {
    auto& waiting = reducing[{a.reduce.step, a.reduce.group}];
    waiting.push_back(id);
    if (waiting.size() < a.reduce.participants.size()) return;
    std::uint64_t sum = 0;
    for (const WorkerId& w : waiting) sum += workers.at(w).accumulators[a.reduce.step];
    for (const WorkerId& w : waiting) {
      later.push_back([=, this, reduce = a.reduce] {
        workers.at(w).reduced[reduce.step] = sum;
        Act(w, workers.at(w).replica->OnGroupReduced(reduce.step, reduce.group, reduce.k, {sum, 0},
                                                     {{"w", 1.0}}));
      });
    }
  }
  void Do(const WorkerId& id, Worker& worker, const action::ApplyCommit& a) {
    const Step step = a.record.step;
    worker.weights[Version(step.value + 1)] =
        worker.weights.at(Version(step.value)) + worker.reduced.at(step);
    // As the real worker: one version is kept, or two in Delayed mode.
    while (worker.weights.size() > (delayed ? 2 : 1)) worker.weights.erase(worker.weights.begin());
    const Digest state{worker.weights.at(Version(step.value + 1)), 0};
    later.push_back([=, this] { Act(id, workers.at(id).replica->OnApplied(step, state)); });
  }
  void Do(const WorkerId&, Worker& worker, const action::ReleaseStep& a) {
    worker.accumulators.erase(a.step);
    worker.reduced.erase(a.step);
  }
  void Do(const WorkerId&, Worker&, const action::TakeCheckpoint&) {}
  void Do(const WorkerId& id, Worker&, const action::Tell& a) { Post(id, kTrainer, a.message); }
  void Do(const WorkerId&, Worker&, const action::Refuse& a) { refused.emplace_back(a.reason); }
  void Do(const WorkerId&, Worker&, const action::Fail& a) { FAIL() << a.reason; }

  void Deliver(const WorkerId& from, const WorkerId& to, const Message& message) {
    if (to == kTrainer) {
      if (const auto* m = std::get_if<Ready>(&message)) Carry(coordinator->OnReady(from, *m, {}));
      if (const auto* m = std::get_if<Progress>(&message)) {
        Carry(coordinator->OnProgress(from, *m, {}));
      }
      if (const auto* m = std::get_if<Reduced>(&message)) {
        Carry(coordinator->OnReduced(from, *m, {}));
      }
      if (const auto* m = std::get_if<Committed>(&message)) {
        Carry(coordinator->OnCommitted(from, *m, {}));
      }
      return;
    }
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
      Worker& worker = workers[to];
      worker.stage = welcome->stage;
      worker.weights[Version(0)] = welcome->stage.value;
      worker.replica =
          std::make_unique<Replica>(ReplicaOptions{.self = to,
                                                   .stage = welcome->stage,
                                                   .stages = stages,
                                                   .groups = {GroupIndex(welcome->stage.value)},
                                                   .keeps_previous_version = delayed});
      Post(to, kTrainer, Ready{{}, welcome->stage, {}, {}});
      return;
    }
    Replica& replica = *workers.at(to).replica;
    if (const auto* m = std::get_if<Forward>(&message)) Act(to, replica.OnForward(*m));
    if (const auto* m = std::get_if<Backward>(&message)) Act(to, replica.OnBackward(from, *m));
    if (const auto* m = std::get_if<Reduce>(&message)) Act(to, replica.OnReduce(*m));
    if (const auto* m = std::get_if<Commit>(&message)) Act(to, replica.OnCommit(*m));
    if (const auto* m = std::get_if<Roster>(&message)) Act(to, replica.OnRoster(*m));
  }

  /// One event, drawn from all that can happen next. False when nothing can.
  bool Step1() {
    std::vector<std::pair<WorkerId, WorkerId>> ready;
    for (const auto& [link, queue] : links) {
      if (!queue.empty()) ready.push_back(link);
    }
    if (ready.empty() && later.empty()) return false;
    const std::uint64_t pick = rng.Below(ready.size() + later.size());
    if (pick < ready.size()) {
      const auto link = ready[pick];
      Message message = std::move(links[link].front());
      links[link].pop_front();
      Deliver(link.first, link.second, message);
    } else {
      const auto it = later.begin() + static_cast<std::ptrdiff_t>(pick - ready.size());
      auto work = std::move(*it);
      later.erase(it);
      work();
    }
    return true;
  }

  std::uint64_t microbatches, stages = 0;
  bool delayed;
  Rng rng;
  std::unique_ptr<Coordinator> coordinator;
  std::map<WorkerId, Worker> workers;
  std::map<std::pair<WorkerId, WorkerId>, std::deque<Message>> links;
  std::deque<std::function<void()>> later;
  std::map<std::pair<Step, GroupIndex>, std::vector<WorkerId>> reducing;
  std::set<std::tuple<Step, Microbatch, StageIndex>> contributions;
  std::vector<Step> committed;
  std::vector<std::string> refused;
  bool finished = false, succeeded = false;
  std::string reason;
};

/// The weights after `steps` steps, by the definition alone.
std::vector<std::uint64_t> Reference(std::uint64_t stages, std::uint64_t microbatches,
                                     std::uint64_t steps, bool delayed) {
  std::vector<std::uint64_t> result;
  for (std::uint64_t s = 0; s < stages; ++s) {
    std::vector<std::uint64_t> weights{s};
    for (std::uint64_t t = 0; t < steps; ++t) {
      const std::uint64_t reads = delayed && t > 0 ? t - 1 : t;
      std::uint64_t sum = 0;
      for (std::uint64_t m = 0; m < microbatches; ++m) {
        const TaskKey key{{}, Step(t), Microbatch(m), StageIndex(s), {}};
        sum += Gradient(key, Version(reads), weights[reads]);
      }
      weights.push_back(weights.back() + sum);
    }
    result.push_back(weights.back());
  }
  return result;
}

class SwarmTest : public ::testing::TestWithParam<bool> {};

TEST_P(SwarmTest, AnyOrderOfMessagesGivesTheWeightsOfTheUndisturbedLoop) {
  const bool delayed = GetParam();
  const std::vector<std::vector<std::uint64_t>> layouts{
      {1}, {3}, {1, 1}, {2, 1, 3}, {1, 2, 2, 1, 1}};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto& layout = layouts[seed % layouts.size()];
    const std::uint64_t microbatches = 1 + seed % 7, steps = 6;
    Swarm swarm(layout, microbatches, steps, delayed, seed);
    for (int events = 0; !swarm.finished && events < 200000; ++events) {
      ASSERT_TRUE(swarm.Step1()) << "nothing can happen and the job is not over; seed " << seed;
    }
    ASSERT_TRUE(swarm.succeeded) << swarm.reason << " seed " << seed;
    EXPECT_EQ(swarm.committed.size(), steps);
    EXPECT_EQ(swarm.contributions.size(), steps * microbatches * layout.size());
    EXPECT_TRUE(swarm.refused.empty()) << swarm.refused.front() << " seed " << seed;
    const auto expected = Reference(layout.size(), microbatches, steps, delayed);
    while (swarm.Step1()) {
    }
    for (const auto& [id, worker] : swarm.workers) {
      EXPECT_EQ(worker.weights.rbegin()->second, expected[worker.stage.value])
          << id.value << " seed " << seed;
    }
  }
}

TEST_P(SwarmTest, AStopFinishesWhatHasBegunAndNothingElse) {
  Swarm swarm({2, 1}, 4, 1000, GetParam(), 3);
  while (swarm.committed.size() < 5) ASSERT_TRUE(swarm.Step1());
  swarm.Carry(swarm.coordinator->OnStopRequested({}));
  while (!swarm.finished) ASSERT_TRUE(swarm.Step1());
  EXPECT_TRUE(swarm.succeeded);
  EXPECT_LE(swarm.committed.size(), 7u);
  EXPECT_EQ(swarm.contributions.size(), swarm.committed.size() * 4 * 2);
}

INSTANTIATE_TEST_SUITE_P(StepModes, SwarmTest, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Delayed" : "Sync"; });

}  // namespace
}  // namespace swarm::protocol
