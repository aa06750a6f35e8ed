// Measures tokens per second of forward, backward and fold on one thread, beside the rate of plain
// matrix products of the same sizes: the share of the machine that a stage puts to use.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "worker/model/stage.h"

namespace swarm::model {
namespace {

constexpr std::int64_t kLength = 256;

api::DecoderConfig BenchConfig() {
  api::DecoderConfig config;
  config.hidden_size = 512;
  config.num_hidden_layers = 8;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 4;
  config.head_dim = 64;
  config.intermediate_size = 1408;
  config.vocab_size = 4096;
  return config;
}

/// Floating-point operations of forward and backward for one token: two a weight and pass, three
/// passes; attention's products over half of the square that the mask leaves.
double OperationsPerToken(const api::DecoderConfig& config) {
  const double query = static_cast<double>(config.num_attention_heads * config.head_dim);
  const double key_value = static_cast<double>(config.num_key_value_heads * config.head_dim);
  const double hidden = static_cast<double>(config.hidden_size);
  const double layer =
      hidden * (2 * query + 2 * key_value + 3 * static_cast<double>(config.intermediate_size));
  const double weights = layer * static_cast<double>(config.num_hidden_layers) +
                         hidden * static_cast<double>(config.vocab_size);
  const double attention = static_cast<double>(config.num_hidden_layers) * query * kLength;
  return 6 * (weights + attention);
}

void SetRate(benchmark::State& state, double operations_per_iteration) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(operations_per_iteration * 1e-9 * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

void BM_MatrixProduct(benchmark::State& state, at::ScalarType type) {
  at::set_num_threads(1);
  const c10::NoGradGuard no_gradients;
  const api::DecoderConfig config = BenchConfig();
  const std::int64_t rows = state.range(0) * kLength;
  const at::Tensor x = at::randn({rows, config.hidden_size}).to(type);
  const at::Tensor w = at::randn({2 * config.intermediate_size, config.hidden_size}).to(type);
  for (auto _ : state) benchmark::DoNotOptimize(at::linear(x, w).const_data_ptr());
  SetRate(state, 2.0 * static_cast<double>(rows * w.numel()));
}

void BM_ForwardBackwardFold(benchmark::State& state, api::Precision precision,
                            api::Accumulation accumulation) {
  StageOptions options;
  options.config = BenchConfig();
  options.precision = precision;
  options.accumulation = accumulation;
  auto stage = Stage::Create(options);
  if (!stage.ok()) return state.SkipWithError(stage.status().ToString().c_str());
  (*stage)->InitRandom(1);
  const auto sequences = static_cast<std::uint32_t>(state.range(0));
  Rng rng(2);
  std::vector<std::int32_t> ids(sequences * (kLength + 1));
  for (auto& id : ids) id = static_cast<std::int32_t>(rng.Below(options.config.vocab_size));
  const TokenBatch tokens{sequences, kLength + 1, ids};
  const TaskKey key{};
  for (auto _ : state) {
    const bool done = (*stage)->Forward(key, Version(0), tokens, {}, true).ok() &&
                      (*stage)->Backward(key, {}).ok() && (*stage)->Fold(key).ok();
    if (!done) return state.SkipWithError("a task failed");
  }
  const double tokens_per_iteration = static_cast<double>(sequences * kLength);
  state.counters["tokens/s"] = benchmark::Counter(
      tokens_per_iteration * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  SetRate(state, tokens_per_iteration * OperationsPerToken(options.config));
}

void BM_Apply(benchmark::State& state, api::OptimizerType type, api::StepMode mode,
              api::Accumulation accumulation) {
  StageOptions options;
  options.config = BenchConfig();
  options.accumulation = accumulation;
  options.optimizer.type = type;
  options.step_mode = mode;
  auto stage = Stage::Create(options);
  if (!stage.ok()) return state.SkipWithError(stage.status().ToString().c_str());
  (*stage)->InitRandom(1);
  const std::uint64_t count = (*stage)->groups()[0].count;
  const std::uint64_t element = accumulation == api::Accumulation::kExact ? 8 : 4;
  // As integers or as floats: ones or nearly so.
  const Bytes groups[] = {Bytes::Make(count * element, [&](std::byte* memory) {
    std::fill_n(memory, count * element, std::byte{1});
  })};
  for (auto _ : state) {
    if (!(*stage)->Apply(groups, 0.5, 1e-3, false).ok()) return state.SkipWithError("apply failed");
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * count));
}

using api::Accumulation;
using api::Precision;

BENCHMARK_CAPTURE(BM_MatrixProduct, FP32, at::kFloat)->Arg(1)->Arg(4)->UseRealTime();
BENCHMARK_CAPTURE(BM_ForwardBackwardFold, FP32, Precision::kFP32, Accumulation::kFloat)
    ->Arg(1)
    ->Arg(4)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_ForwardBackwardFold, FP32Exact, Precision::kFP32, Accumulation::kExact)
    ->Arg(1)
    ->Arg(4)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_MatrixProduct, BF16, at::kBFloat16)->Arg(1)->UseRealTime();
BENCHMARK_CAPTURE(BM_ForwardBackwardFold, BF16, Precision::kBF16, Accumulation::kFloat)
    ->Arg(1)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_Apply, AdamWSync, api::OptimizerType::kAdamW, api::StepMode::kSync,
                  Accumulation::kFloat)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_Apply, AdamWSyncExact, api::OptimizerType::kAdamW, api::StepMode::kSync,
                  Accumulation::kExact)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_Apply, AdamWDelayed, api::OptimizerType::kAdamW, api::StepMode::kDelayed,
                  Accumulation::kFloat)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_Apply, LambSync, api::OptimizerType::kLAMB, api::StepMode::kSync,
                  Accumulation::kFloat)
    ->UseRealTime();

}  // namespace
}  // namespace swarm::model

BENCHMARK_MAIN();
