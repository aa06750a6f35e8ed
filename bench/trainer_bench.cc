// What a microbatch costs the trainer: the coordinator's decisions (issue, reports of S stages, its
// share of reduce and commit), the draw of its tokens, and the encoding of its first frame. Target:
// at most 50 us.
#include <benchmark/benchmark.h>

#include <string>

#include "base/testing/temporary_folder.h"
#include "worker/data/corpus.h"
#include "worker/net/wire/wire.h"
#include "worker/protocol/coordinator/coordinator.h"

namespace swarm::protocol {
namespace {

constexpr std::uint64_t kMicrobatches = 64;

/// Answers every order at once, as workers without any compute would.
class InstantSwarm {
 public:
  InstantSwarm(std::uint64_t stages, std::uint64_t replicas, std::function<void(Forward&)> on_issue)
      : coordinator_({.replicas = std::vector<std::uint64_t>(stages, replicas),
                      .microbatches = kMicrobatches,
                      .max_steps = ~0ULL,
                      .learning_rate = [](Step) { return 1e-3; }}),
        on_issue_(std::move(on_issue)) {
    for (std::uint64_t i = 0; i < stages * replicas; ++i) {
      const WorkerId id("worker-" + std::to_string(i));
      for (Order& order : coordinator_.OnHello({.id = id}, {})) {
        if (auto* tell = std::get_if<order::Tell>(&order)) {
          const auto& welcome = std::get<Welcome>(tell->message);
          Take(coordinator_.OnReady(id, {{}, welcome.stage, {}, {}}, {}));
        }
      }
    }
  }

  void RunStep() {
    const std::uint64_t goal = steps_ + 1;
    while (steps_ < goal) {
      Orders orders = std::exchange(waiting_, {});
      for (Order& order : orders) Answer(order);
    }
  }

 private:
  void Take(Orders orders) {
    std::move(orders.begin(), orders.end(), std::back_inserter(waiting_));
  }
  void Answer(Order& order) {
    if (auto* issue = std::get_if<order::Issue>(&order)) {
      on_issue_(issue->frame);
      Forward& frame = issue->frame;
      for (std::uint64_t s = 0; s < frame.hops.size(); ++s) {
        TaskKey key = frame.key;
        key.stage = StageIndex(s);
        key.attempt = frame.hops[s].attempt;
        const WorkerId& worker = frame.hops[s].worker;
        Take(coordinator_.OnProgress(worker,
                                     {{{key, TaskReport::Event::kForwarded, 0, 0.01, 1000}}}, {}));
        Take(coordinator_.OnProgress(worker, {{{key, TaskReport::Event::kFolded, 1.0, 0.02, 1000}}},
                                     {}));
      }
    } else if (auto* tell = std::get_if<order::Tell>(&order)) {
      if (const auto* reduce = std::get_if<Reduce>(&tell->message)) {
        Take(coordinator_.OnReduced(tell->to,
                                    {{},
                                     reduce->step,
                                     reduce->group,
                                     reduce->k,
                                     {},
                                     {{"w" + std::to_string(reduce->group.value), 1.0}}},
                                    {}));
      }
    } else if (std::get_if<order::StepDone>(&order)) {
      ++steps_;
    }
  }

  Coordinator coordinator_;
  std::function<void(Forward&)> on_issue_;
  Orders waiting_;
  std::uint64_t steps_ = 0;
};

void PerMicrobatch(benchmark::State& state) {
  state.counters["us_per_microbatch"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kMicrobatches) * 1e-6,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_Decisions(benchmark::State& state) {
  InstantSwarm swarm(state.range(0), state.range(1), [](Forward&) {});
  for (auto _ : state) swarm.RunStep();
  PerMicrobatch(state);
}
BENCHMARK(BM_Decisions)->ArgNames({"stages", "replicas"})->Args({1, 1})->Args({4, 4})->Args({8, 8});

void BM_All(benchmark::State& state) {
  const TemporaryFolder folder;
  auto corpus = data::Corpus::Open(
      {.uri = folder.Put("text.txt", std::string(1 << 20, 'x')),
       .vocab_size = 256,
       .tokens_per_sequence = 2049,
       .tokenizer = std::shared_ptr<const data::Tokenizer>(data::MakeByteTokenizer())});
  if (!corpus.ok()) return state.SkipWithError(corpus.status().message().c_str());
  InstantSwarm swarm(state.range(0), state.range(1), [&](Forward& frame) {
    const auto ids = (*corpus)->Draw(1, frame.key.step.value, frame.key.microbatch.value, 1, 2049);
    frame.tokens = Bytes::Copy(ids.data(), ids.size() * sizeof(ids[0]));
    const auto header = net::EncodeHeader(frame);
    benchmark::DoNotOptimize(header);
  });
  for (auto _ : state) swarm.RunStep();
  PerMicrobatch(state);
}
BENCHMARK(BM_All)->ArgNames({"stages", "replicas"})->Args({4, 4})->Args({8, 8});

}  // namespace
}  // namespace swarm::protocol

BENCHMARK_MAIN();
