// Measures what one decision of the operator costs (operator/plan/decide.h) in a job of so many
// pods: while they wait for nodes, once they train and the trainer lists their workers, and when
// one of them is lost.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

constexpr std::uint64_t kStages = 4;

FakeCluster Job(std::uint64_t pods, bool have_nodes) {
  FakeCluster cluster(pods, kStages);
  cluster.free_slots["spot"] = have_nodes ? pods : 0;
  cluster.Settle();
  return cluster;
}

void Measure(benchmark::State& state, const Observed& observed) {
  for (auto _ : state) benchmark::DoNotOptimize(Decide(observed));
  state.SetLabel(std::to_string(observed.pods.size()) + " pods");
}

void Waiting(benchmark::State& state) {
  FakeCluster cluster = Job(static_cast<std::uint64_t>(state.range(0)), /*have_nodes=*/false);
  Measure(state, cluster.Observe(cluster.leader));
}

void Training(benchmark::State& state) {
  FakeCluster cluster = Job(static_cast<std::uint64_t>(state.range(0)), /*have_nodes=*/true);
  Measure(state, cluster.Observe(cluster.leader));
}

void OneLost(benchmark::State& state) {
  FakeCluster cluster = Job(static_cast<std::uint64_t>(state.range(0)), /*have_nodes=*/true);
  cluster.LoseNodeOf(cluster.Workers().front());
  Measure(state, cluster.Observe(cluster.leader));
}

BENCHMARK(Waiting)->RangeMultiplier(4)->Range(64, 4096)->Unit(benchmark::kMicrosecond);
BENCHMARK(Training)->RangeMultiplier(4)->Range(64, 4096)->Unit(benchmark::kMicrosecond);
BENCHMARK(OneLost)->RangeMultiplier(4)->Range(64, 4096)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace swarm::plan

BENCHMARK_MAIN();
