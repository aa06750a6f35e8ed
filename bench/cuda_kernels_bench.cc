// Measures the kernels of worker/codec/cuda on a GPU, beside a copy in its memory in the same run.
// Every rate counts the bytes that are read and written, so a kernel that is as fast as memory
// allows has the rate of the copy. 256 MiB of float32, more than a GPU's caches hold.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <functional>
#include <vector>

#include "worker/codec/cuda/kernels.h"
#include "worker/codec/cuda/testing/cases.h"
#include "worker/codec/cuda/testing/device.h"

namespace swarm::codec::cuda {
namespace {

constexpr std::size_t kNumbers = std::size_t{64} << 20, kBlock = 256;

/// Numbers of a normal distribution.
std::vector<float> Numbers() {
  const std::vector<float> some = NormalNumbers(1 << 16, 1);
  std::vector<float> values;
  values.reserve(kNumbers);
  while (values.size() < kNumbers) values.insert(values.end(), some.begin(), some.end());
  return values;
}

/// Times what `enqueue` puts on the default stream, by events.
void Time(benchmark::State& state, std::size_t bytes, const std::function<Status()>& enqueue) {
  cudaEvent_t begin = nullptr, end = nullptr;
  Require(cudaEventCreate(&begin));
  Require(cudaEventCreate(&end));
  for (auto _ : state) {
    Require(cudaEventRecord(begin));
    const Status status = enqueue();
    Require(cudaEventRecord(end));
    Require(cudaEventSynchronize(end));
    if (!status.ok()) return state.SkipWithError(status.message().c_str());
    float milliseconds = 0;
    Require(cudaEventElapsedTime(&milliseconds, begin, end));
    state.SetIterationTime(static_cast<double>(milliseconds) / 1000);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
  Require(cudaEventDestroy(begin));
  Require(cudaEventDestroy(end));
}

void Copy(benchmark::State& state) {
  const OnDevice<float> from(Numbers()), to(kNumbers);
  const std::size_t bytes = kNumbers * sizeof(float);
  Time(state, 2 * bytes, [&] {
    Require(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice));
    return Status();
  });
}
BENCHMARK(Copy)->UseManualTime();

/// Memory for what the block codes need.
struct Codes {
  OnDevice<float> x{Numbers()};
  OnDevice<DynamicTables> tables{std::vector<DynamicTables>{{DynamicMap(), NearestEntries()}}};
  std::size_t payload_bytes = BlockCodes(CodeMap::kLinear, kBlock).EncodedBytes(kNumbers);
  OnDevice<std::byte> payload{payload_bytes};
  OnDevice<std::uint32_t> odd{std::vector{kNoBlock}};

  Status Encode(CodeMap map) const {
    return EncodeBlocks(map, kBlock, x.get(), kNumbers, tables.get(), payload.get(), odd.get(),
                        nullptr);
  }
  Status Decode(CodeMap map) const {
    return DecodeBlocks(map, kBlock, NotFinite::kBlockOfNaNs, payload.get(), kNumbers, tables.get(),
                        x.get(), odd.get(), nullptr);
  }
  std::size_t bytes() const { return kNumbers * sizeof(float) + payload_bytes; }
};

void Encode(benchmark::State& state, CodeMap map) {
  const Codes codes;
  Time(state, codes.bytes(), [&] { return codes.Encode(map); });
}
BENCHMARK_CAPTURE(Encode, Int8, CodeMap::kLinear)->UseManualTime();
BENCHMARK_CAPTURE(Encode, Int8Dynamic, CodeMap::kDynamic)->UseManualTime();

void Decode(benchmark::State& state, CodeMap map) {
  const Codes codes;
  if (!codes.Encode(map).ok()) return state.SkipWithError("it was not encoded");
  Time(state, codes.bytes(), [&] { return codes.Decode(map); });
}
BENCHMARK_CAPTURE(Decode, Int8, CodeMap::kLinear)->UseManualTime();
BENCHMARK_CAPTURE(Decode, Int8Dynamic, CodeMap::kDynamic)->UseManualTime();

void EncodeBF16(benchmark::State& state) {
  const OnDevice<float> x(Numbers());
  const OnDevice<std::uint16_t> halves(kNumbers);
  Time(state, kNumbers * 6,
       [&] { return EncodeBFloat16(x.get(), kNumbers, halves.get(), nullptr); });
}
BENCHMARK(EncodeBF16)->UseManualTime();

void DecodeBF16(benchmark::State& state) {
  const OnDevice<float> x(kNumbers);
  const OnDevice<std::uint16_t> halves(std::vector<std::uint16_t>(kNumbers, 0x3f80));
  Time(state, kNumbers * 6,
       [&] { return DecodeBFloat16(halves.get(), kNumbers, x.get(), nullptr); });
}
BENCHMARK(DecodeBF16)->UseManualTime();

void Fold(benchmark::State& state) {
  const OnDevice<float> values(Numbers()), sum(std::vector<float>(kNumbers, 0));
  Time(state, kNumbers * 12, [&] { return AddFloats(values.get(), kNumbers, sum.get(), nullptr); });
}
BENCHMARK(Fold)->UseManualTime();

void FoldExact(benchmark::State& state) {
  const OnDevice<float> values(Numbers());
  const OnDevice<std::int64_t> sum(std::vector<std::int64_t>(kNumbers, 0));
  Time(state, kNumbers * 20,
       [&] { return AddQuantized(values.get(), kNumbers, 30, sum.get(), nullptr); });
}
BENCHMARK(FoldExact)->UseManualTime();

void Norm(benchmark::State& state) {
  const OnDevice<float> values(Numbers());
  const OnDevice<double> squares(NormBlocks(kNumbers)), norm(1);
  Time(state, kNumbers * 4,
       [&] { return SquaredNorm(values.get(), kNumbers, squares.get(), norm.get(), nullptr); });
}
BENCHMARK(Norm)->UseManualTime();

void AdamW(benchmark::State& state) {
  const OnDevice<float> weights(Numbers()), gradient(Numbers());
  const OnDevice<float> first(std::vector<float>(kNumbers, 0)),
      second(std::vector<float>(kNumbers, 0));
  Time(state, kNumbers * 28, [&] {
    return UpdateAdamW(
        {.learning_rate = 1e-4},
        {weights.get(), gradient.get(), first.get(), second.get(), weights.get(), kNumbers},
        nullptr);
  });
}
BENCHMARK(AdamW)->UseManualTime();

}  // namespace
}  // namespace swarm::codec::cuda

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (const std::string why = swarm::codec::cuda::WhyNoDevice(); !why.empty()) {
    std::printf("SKIPPED: %s\n", why.c_str());
    return 77;
  }
  benchmark::RunSpecifiedBenchmarks();
}
