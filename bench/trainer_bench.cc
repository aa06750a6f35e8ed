// Measures what a microbatch costs the trainer: the coordinator's decisions (issue, reports of all
// stages, its share of reduce and commit), the draw of its tokens, and the encoding of its first
// frame. The target is at most 50 us.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/testing/temporary_folder.h"
#include "worker/data/corpus.h"
#include "worker/net/wire/wire.h"
#include "worker/protocol/coordinator/coordinator.h"

namespace swarm::protocol {
namespace {

/// Answers each order at once, as workers without any compute would. Its clock is virtual: each
/// step lasts as long as workers of the reported speeds need for it, so no deadline ever passes.
class InstantSwarm {
 public:
  InstantSwarm(std::uint64_t stages, std::uint64_t replicas, std::uint64_t microbatches,
               std::function<void(Forward&)> on_issue)
      : coordinator_({.replicas = std::vector<std::uint64_t>(stages, replicas),
                      .microbatches = microbatches,
                      .max_steps = ~0ULL,
                      .learning_rate = [](Step) { return 1e-3; }},
                     now_),
        on_issue_(std::move(on_issue)) {
    stages_ = stages;
    for (std::uint64_t i = 0; i < stages * replicas; ++i) {
      const WorkerId id("worker-" + std::to_string(i));
      Say(id, Hello{.id = id, .incarnation = Incarnation(1)});
    }
    AnswerWaiting();  // Welcome with Ready, and further orders up to the first step
  }

  /// The first `count` replicas of the first stage say that they will be ended.
  void Leave(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      Say(WorkerId("worker-" + std::to_string(i * stages_)), Leaving{3600});
    }
  }
  /// Requires that the job has started. Ends the program if the coordinator stops making steps.
  void RunStep() {
    const std::uint64_t goal = steps_ + 1;
    while (steps_ < goal) {
      SWARM_CHECK(!waiting_.empty(), "the coordinator has ordered nothing");
      AnswerWaiting();
    }
    now_ += kStepTime;
    Take(coordinator_.OnTick(now_));
  }

 private:
  static constexpr Duration kStepTime = std::chrono::milliseconds(200);

  void Say(const WorkerId& from, Message message) {
    Take(coordinator_.OnMessage(from, message, now_));
  }
  void Take(Orders orders) {
    std::move(orders.begin(), orders.end(), std::back_inserter(waiting_));
  }
  void AnswerWaiting() {
    Orders orders = std::exchange(waiting_, {});
    for (Order& order : orders) Answer(order);
  }
  void Answer(Order& order) {
    if (auto* issue = std::get_if<order::Issue>(&order)) {
      on_issue_(issue->frame);
      Compute(issue->frame);
    } else if (const auto* tell = std::get_if<order::Tell>(&order)) {
      Answer(tell->to, tell->message);
    } else if (std::get_if<order::StepDone>(&order)) {
      ++steps_;
    }
  }
  void Compute(const Forward& frame) {
    for (std::uint64_t s = 0; s < frame.hops.size(); ++s) {
      TaskKey key = frame.key;
      key.stage = StageIndex(s);
      key.attempt = frame.hops[s].attempt;
      const WorkerId& worker = frame.hops[s].worker;
      folded_[{worker, key.step}].push_back({key.microbatch, key.attempt});
      Say(worker, Progress{{{key, TaskReport::Event::kForwarded, 0, 0.01, 1000}}});
      Say(worker, Progress{{{key, TaskReport::Event::kFolded, 1.0, 0.02, 1000}}});
    }
  }
  void Answer(const WorkerId& worker, const Message& told) {
    if (const auto* welcome = std::get_if<Welcome>(&told)) {
      Say(worker, Ready{welcome->generation, welcome->stage, welcome->version, {}});
    } else if (const auto* reduce = std::get_if<Reduce>(&told)) {
      Say(worker, Reduced{reduce->generation,
                          reduce->step,
                          reduce->group,
                          reduce->k,
                          {},
                          {{"w" + std::to_string(reduce->group.value), 1.0}}});
    } else if (const auto* hand_over = std::get_if<HandOver>(&told)) {
      auto& folded = folded_[{worker, hand_over->step}];
      std::ranges::sort(folded, {}, &Contribution::microbatch);
      Say(hand_over->heir, ParcelHeld{hand_over->generation, hand_over->step, worker, folded});
    } else if (const auto* commit = std::get_if<Commit>(&told)) {
      folded_.erase({worker, commit->record.step});
      Say(worker, Committed{commit->record.generation, commit->record.step, {}});
    }
  }

  Timepoint now_{};
  Coordinator coordinator_;
  std::function<void(Forward&)> on_issue_;
  Orders waiting_;
  std::uint64_t steps_ = 0;
  std::uint64_t stages_;
  std::map<std::pair<WorkerId, Step>, std::vector<Contribution>> folded_;
};

void PerMicrobatch(benchmark::State& state) {
  state.counters["per_microbatch"] =
      benchmark::Counter(static_cast<double>(state.iterations() * state.range(2)),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_Decisions(benchmark::State& state) {
  InstantSwarm swarm(state.range(0), state.range(1), state.range(2), [](Forward&) {});
  for (auto _ : state) swarm.RunStep();
  PerMicrobatch(state);
}
BENCHMARK(BM_Decisions)
    ->ArgNames({"stages", "replicas", "microbatches"})
    ->Args({1, 1, 64})
    ->Args({4, 4, 64})
    ->Args({8, 8, 64})
    ->Args({4, 4, 10000})
    ->Args({4, 250, 10000})
    ->Args({16, 62, 10000})
    ->Unit(benchmark::kMillisecond);

/// All workers come, load, and get the roster; the first step is issued.
void BM_Start(benchmark::State& state) {
  for (auto _ : state) InstantSwarm(state.range(0), state.range(1), 1, [](Forward&) {});
}
BENCHMARK(BM_Start)
    ->ArgNames({"stages", "replicas"})
    ->Args({4, 250})
    ->Args({32, 31})
    ->Unit(benchmark::kMillisecond);

/// A step in which some of a thousand workers leave, all at once.
void BM_Leaving(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    InstantSwarm swarm(state.range(0), state.range(1), state.range(2), [](Forward&) {});
    swarm.RunStep();
    swarm.Leave(state.range(3));
    state.ResumeTiming();
    swarm.RunStep();
  }
  PerMicrobatch(state);
}
BENCHMARK(BM_Leaving)
    ->ArgNames({"stages", "replicas", "microbatches", "leave"})
    ->Args({4, 250, 10000, 1})
    ->Args({4, 250, 10000, 100})
    ->Args({16, 62, 10000, 60})
    ->Unit(benchmark::kMillisecond);

void BM_All(benchmark::State& state) {
  const TemporaryFolder folder;
  auto corpus = data::Corpus::Open(
      {.uri = folder.Put("text.txt", std::string(1 << 20, 'x')),
       .vocab_size = 256,
       .tokens_per_sequence = 2049,
       .tokenizer = std::shared_ptr<const data::Tokenizer>(data::MakeByteTokenizer())});
  if (!corpus.ok()) return state.SkipWithError(corpus.status().message().c_str());
  InstantSwarm swarm(state.range(0), state.range(1), state.range(2), [&](Forward& frame) {
    const auto ids = *(*corpus)->Read(frame.key.microbatch.value * 2048, 2049);
    frame.tokens = Bytes::Copy(ids.data(), ids.size() * sizeof(ids[0]));
    const auto header = net::EncodeHeader(frame);
    benchmark::DoNotOptimize(header);
  });
  for (auto _ : state) swarm.RunStep();
  PerMicrobatch(state);
}
BENCHMARK(BM_All)
    ->ArgNames({"stages", "replicas", "microbatches"})
    ->Args({4, 4, 64})
    ->Args({8, 8, 64});

}  // namespace
}  // namespace swarm::protocol

BENCHMARK_MAIN();
