// Measures the speed of the 8-bit codes (worker/codec/blocks/block_codes.h) on one thread, beside a plain
// memcpy in the same run. Rates count float32 input: 4 MiB stays in the caches, 256 MiB does not.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <vector>

#include "worker/codec/blocks/block_codes.h"

namespace swarm::codec {
namespace {

constexpr std::size_t kBlock = 256;

std::vector<float> Numbers(std::int64_t mebibytes) {
  std::vector<float> values(static_cast<std::size_t>(mebibytes) << 18);
  std::mt19937 random(1);
  std::normal_distribution<float> draw;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i < 65536 ? draw(random) : values[i - 65536];
  return values;
}

void SetRate(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * (state.range(0) << 20));
}

void Memcpy(benchmark::State& state) {
  const std::vector<float> from = Numbers(state.range(0));
  std::vector<float> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  SetRate(state);
}
BENCHMARK(Memcpy)->Arg(4)->Arg(64)->Arg(256);

void Encode(benchmark::State& state, CodeMap map, Isa isa) {
  if (!HasIsa(isa)) return state.SkipWithError("this processor does not have it");
  const BlockCodes codes(map, kBlock);
  const std::vector<float> values = Numbers(state.range(0));
  std::vector<std::byte> out(codes.EncodedBytes(values.size()));
  for (auto _ : state) {
    if (!codes.Encode(values, out.data(), isa).ok()) return state.SkipWithError("refused");
    benchmark::ClobberMemory();
  }
  SetRate(state);
}

void Decode(benchmark::State& state, CodeMap map, Isa isa) {
  if (!HasIsa(isa)) return state.SkipWithError("this processor does not have it");
  const BlockCodes codes(map, kBlock);
  std::vector<float> values = Numbers(state.range(0));
  std::vector<std::byte> payload(codes.EncodedBytes(values.size()));
  if (!codes.Encode(values, payload.data(), isa).ok()) return state.SkipWithError("refused");
  for (auto _ : state) {
    if (!codes.Decode(payload, values, isa).ok()) return state.SkipWithError("refused");
    benchmark::ClobberMemory();
  }
  SetRate(state);
}

#define SWARM_CODES(function)                                                                  \
  BENCHMARK_CAPTURE(function, LinearScalar, CodeMap::kLinear, Isa::kScalar)->Arg(4);           \
  BENCHMARK_CAPTURE(function, LinearAvx2, CodeMap::kLinear, Isa::kAvx2)->Arg(4)->Arg(256);     \
  BENCHMARK_CAPTURE(function, LinearAvx512, CodeMap::kLinear, Isa::kAvx512)->Arg(4)->Arg(256); \
  BENCHMARK_CAPTURE(function, DynamicAvx2, CodeMap::kDynamic, Isa::kAvx2)->Arg(4)->Arg(256);   \
  BENCHMARK_CAPTURE(function, DynamicAvx512, CodeMap::kDynamic, Isa::kAvx512)->Arg(4)->Arg(256)
SWARM_CODES(Encode);
SWARM_CODES(Decode);

}  // namespace
}  // namespace swarm::codec

BENCHMARK_MAIN();
