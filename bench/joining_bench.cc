// Measures the data plane of joining in bytes per second, in memory and on one thread: a replica
// digests its state and serves pieces of it, and a joining worker fetches all of it.
#include <benchmark/benchmark.h>

#include <deque>
#include <map>
#include <memory>

#include "worker/stage/join/donor.h"
#include "worker/stage/join/joining.h"

namespace swarm::stage {
namespace {

/// A stage's state: many tensors, of which most pieces hold parts of several.
std::vector<checkpoint::NamedTensor> MakeTensors(std::int64_t megabytes) {
  constexpr std::int64_t kTensorBytes = 3 << 20;
  std::vector<checkpoint::NamedTensor> tensors;
  for (std::int64_t i = 0; i * kTensorBytes < megabytes << 20; ++i) {
    tensors.push_back({"layer" + std::to_string(i),
                       checkpoint::ElementType::kF32,
                       {kTensorBytes / 4},
                       Bytes::Copy(std::string(kTensorBytes, static_cast<char>(i)))});
  }
  return tensors;
}

void BM_DigestState(benchmark::State& bench) {
  const auto tensors = MakeTensors(bench.range(0));
  std::uint64_t bytes = 0;
  for (auto _ : bench) bytes += checkpoint::CutState(tensors)->bytes();
  bench.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}
BENCHMARK(BM_DigestState)->ArgName("MiB")->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

void BM_ServeAndFetchState(benchmark::State& bench) {
  const auto state = std::make_shared<const checkpoint::PiecedBytes>(
      *checkpoint::CutState(MakeTensors(bench.range(0))));
  protocol::Welcome welcome;
  welcome.state = state->digest();
  MemoryAccount account;
  std::map<protocol::WorkerId, Donor> donors;
  for (const char* name : {"ada", "bob", "cal"}) {
    const protocol::WorkerId id(name);
    donors.try_emplace(id, &account, [](auto&&...) { return nullptr; })
        .first->second.Pin({}, {}, state);
    welcome.donors.emplace_back().id = id;
  }
  for (auto _ : bench) {
    bool done = false;
    std::deque<std::pair<protocol::WorkerId, protocol::Fetch>> asked;
    StateFetch fetch(
        welcome, [&](const auto& to, const auto& request) { asked.emplace_back(to, request); },
        [&](const Result<checkpoint::TensorLookup>& result) { done = result.ok(); });
    fetch.OnTick({});
    for (; !asked.empty(); asked.pop_front()) {
      const auto& [to, request] = asked.front();
      const Donor::Answer answer = donors.at(to).OnFetch(request);
      fetch.OnFetched(to, answer.message, answer.payload, {});
    }
    if (!done) bench.SkipWithError("not fetched");
  }
  bench.SetBytesProcessed(static_cast<std::int64_t>(state->bytes() * bench.iterations()));
}
BENCHMARK(BM_ServeAndFetchState)->ArgName("MiB")->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace swarm::stage

BENCHMARK_MAIN();
