// What a boundary costs beside its matrix product, on one thread: Send and Encode, Decode and
// Receive as a stage runs them, and a bare libtorch product of the same shape. GFLOP/s are of the
// product in all of them. The arguments are d and k; the tokens are a microbatch of kTokens. The
// times of Subspace include its lookups for each token. Those of Anchored do not: the rows of its
// table are variables of the graph and exist before it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include <map>
#include <memory>

#include "worker/model/arithmetic/boundary.h"
#include "worker/model/decoder/tensor_memory.h"

namespace swarm::model {
namespace {

using api::BoundaryCodec;
using api::NumberCodec;

constexpr std::int64_t kTokens = 2048, kVocabulary = 16384;

/// A boundary of width d that passes k numbers a token, and a microbatch for it.
struct Crossing {
  Crossing(const benchmark::State& state, BoundaryCodec codec, NumberCodec numbers) {
    at::set_num_threads(1);
    KeepTensorMemory();
    const std::int64_t d = state.range(0), k = state.range(1);
    boundary.codec = codec;
    boundary.coefficients = numbers;
    boundary.rank = static_cast<std::uint64_t>(k);
    subspace.basis = at::rand({d, k});
    subspace.fixed = Table(d);
    fixed_in_basis = at::rand({kVocabulary, k});
    ids = at::randint(kVocabulary, {1, kTokens}, at::kLong);
    weights.encoder = subspace.basis.t().contiguous();
    weights.decoder = subspace.basis;
    const at::Tensor rows = at::rand({1, kTokens, d});
    anchors = {.ids = ids, .rows = rows};
    x = at::rand({1, kTokens, d});
    z = at::rand({1, kTokens, k});
    coder = codec::MakeCodec(boundary, codec::Direction::kForward);
  }
  /// One for each width, because making a table takes longer than measuring with it.
  static at::Tensor Table(std::int64_t d) {
    static std::map<std::int64_t, at::Tensor> tables;
    at::Tensor& table = tables[d];
    if (!table.defined()) table = at::rand({kVocabulary, d});
    return table;
  }
  api::Boundary boundary;
  BoundaryWeights weights;
  Subspace subspace;
  Anchors anchors;
  at::Tensor ids, fixed_in_basis, x, z;
  std::unique_ptr<codec::Codec> coder;
};

/// Measures `body`, after it has run once: the first touch of fresh memory is not part of its work.
template <typename Body>
void Repeat(benchmark::State& state, const Body& body) {
  body();
  for (auto _ : state) body();
}

void SetRates(benchmark::State& state) {
  const double operations = 2.0 * static_cast<double>(kTokens * state.range(0) * state.range(1));
  state.counters["GFLOP/s"] = benchmark::Counter(
      operations * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

template <typename Product>
void Multiply(benchmark::State& state, const Product& product) {
  const c10::InferenceMode plain;
  const Crossing at(state, BoundaryCodec::kSubspace, NumberCodec::kNone);
  Repeat(state, [&] { benchmark::DoNotOptimize(product(at).const_data_ptr()); });
  SetRates(state);
}

void NarrowProduct(benchmark::State& state) {
  Multiply(state, [](const Crossing& at) { return at::matmul(at.x, at.subspace.basis); });
}

void WideProduct(benchmark::State& state) {
  Multiply(state, [](const Crossing& at) { return at::linear(at.z, at.subspace.basis); });
}

void SendAndEncode(benchmark::State& state, BoundaryCodec codec, NumberCodec numbers,
                   std::uint64_t refresh_steps = 0) {
  Crossing at(state, codec, numbers);
  at.boundary.refreshSteps = refresh_steps;
  at.x.set_requires_grad(true);  // as in training
  Repeat(state, [&] {
    if (refresh_steps > 0) {
      at.anchors.fixed_in_basis = at::embedding(at.fixed_in_basis, at.ids);
    }
    const at::Tensor z =
        Send(at.boundary, at.weights, at.subspace, at.anchors, /*epsilon=*/1e-5, at.x);
    const auto payload = at.coder->Encode(z);
    if (!payload.ok()) return state.SkipWithError("refused");
    benchmark::DoNotOptimize(payload->data());
  });
  SetRates(state);
}

void DecodeAndReceive(benchmark::State& state, BoundaryCodec codec, NumberCodec numbers) {
  const Crossing at(state, codec, numbers);
  const auto payload = at.coder->Encode(at.z);
  if (!payload.ok()) return state.SkipWithError("refused");
  Repeat(state, [&] {
    auto z = at.coder->Decode(*payload, at.z.sizes(), at::kCPU);
    if (!z.ok()) return state.SkipWithError("refused");
    z->set_requires_grad(true);
    const at::Tensor x = Receive(at.boundary, at.weights, at.subspace, at.anchors, *z);
    benchmark::DoNotOptimize(x.const_data_ptr());
  });
  SetRates(state);
}

void Shapes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t d : {1024, 2048, 4096}) {
    for (const std::int64_t k : {32, 64, 128}) benchmark->Args({d, k});
  }
}

BENCHMARK(NarrowProduct)->Apply(Shapes);
BENCHMARK(WideProduct)->Apply(Shapes);

#define SWARM_BOUNDARY(function)                                                             \
  BENCHMARK_CAPTURE(function, SubspaceFloat32, BoundaryCodec::kSubspace, NumberCodec::kNone) \
      ->Apply(Shapes);                                                                       \
  BENCHMARK_CAPTURE(function, SubspaceInt8, BoundaryCodec::kSubspace, NumberCodec::kInt8)    \
      ->Apply(Shapes);                                                                       \
  BENCHMARK_CAPTURE(function, AnchoredInt8, BoundaryCodec::kAnchored, NumberCodec::kInt8)    \
      ->Apply(Shapes)
SWARM_BOUNDARY(SendAndEncode);
// (F U)[t] is looked up and subtracted.
BENCHMARK_CAPTURE(SendAndEncode, SubspaceTurning, BoundaryCodec::kSubspace, NumberCodec::kInt8, 100)
    ->Apply(Shapes);
SWARM_BOUNDARY(DecodeAndReceive);

}  // namespace
}  // namespace swarm::model

BENCHMARK_MAIN();
