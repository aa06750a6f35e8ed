// Speed of the codecs as a stage calls them, on one thread: from a tensor to bytes of their own and
// back, memory for the result included. Rates are of float32 numbers, 4 bytes each.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include "worker/codec/codec.h"
#include "worker/model/decoder/tensor_memory.h"

namespace swarm::model {
namespace {

using api::BoundaryCodec;

at::Tensor Numbers(std::int64_t mebibytes) {
  at::set_num_threads(1);
  KeepTensorMemory();
  return at::randn({65536}).repeat({mebibytes << 2});
}

std::unique_ptr<codec::Codec> Make(BoundaryCodec codec) {
  return codec::MakeCodec({.codec = codec, .blockSize = 256}, codec::Direction::kForward);
}

void SetRate(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * (state.range(0) << 20));
}

void EncodeTensor(benchmark::State& state, BoundaryCodec kind) {
  const c10::InferenceMode plain;
  const at::Tensor x = Numbers(state.range(0));
  const auto codec = Make(kind);
  for (auto _ : state) {
    const auto payload = codec->Encode(x);
    if (!payload.ok()) return state.SkipWithError("refused");
    benchmark::DoNotOptimize(payload->data());
  }
  SetRate(state);
}

void DecodeTensor(benchmark::State& state, BoundaryCodec kind) {
  const c10::InferenceMode plain;
  const at::Tensor x = Numbers(state.range(0));
  const auto codec = Make(kind);
  const auto payload = codec->Encode(x);
  if (!payload.ok()) return state.SkipWithError("refused");
  for (auto _ : state) {
    const auto y = codec->Decode(*payload, x.sizes(), at::kCPU);
    if (!y.ok()) return state.SkipWithError("refused");
    benchmark::DoNotOptimize(y->const_data_ptr());
  }
  SetRate(state);
}

#define SWARM_CODECS(function)                                              \
  BENCHMARK_CAPTURE(function, BF16, BoundaryCodec::kBF16)->Arg(4)->Arg(64); \
  BENCHMARK_CAPTURE(function, Int8, BoundaryCodec::kInt8)->Arg(4)->Arg(64); \
  BENCHMARK_CAPTURE(function, Int8Dynamic, BoundaryCodec::kInt8Dynamic)->Arg(4)->Arg(64)
SWARM_CODECS(EncodeTensor);
SWARM_CODECS(DecodeTensor);

}  // namespace
}  // namespace swarm::model
