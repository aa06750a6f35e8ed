// Measures tokens per second of forward, backward and fold on one thread, beside the rate of plain
// matrix products of the same sizes: the share of the machine that a stage puts to use. Then what
// the loss takes with and without the logits of a whole microbatch, and what keys and values that
// are kept bring to a generated text.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "worker/model/arithmetic/head_loss.h"
#include "worker/model/stage.h"
#include "worker/model/testing/counted_memory.h"

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

/// The loss of 2,048 tokens and its gradients; `at_once` of 0 stands for the stage's own choice.
void BM_HeadLoss(benchmark::State& state, std::int64_t vocab_size, std::int64_t at_once) {
  at::set_num_threads(1);
  constexpr std::int64_t kTokens = 2048, kWidth = 1024;
  const testing::CountedMemory memory;
  const at::Tensor x = at::randn({1, kTokens, kWidth}).requires_grad_();
  const at::Tensor head = at::randn({vocab_size, kWidth}).mul_(0.02).requires_grad_();
  const at::Tensor labels = at::randint(vocab_size, {1, kTokens}, at::kLong);
  const HeadLossOptions options{.tokens_at_once =
                                    at_once > 0 ? at_once : LossTokensAtOnce(vocab_size, false)};
  const std::size_t before = testing::CountedMemory::used();
  testing::CountedMemory::ForgetPeak();
  for (auto _ : state) {
    const at::Tensor loss = HeadLoss(x, head, labels, options);
    benchmark::DoNotOptimize(torch::autograd::grad({loss}, {x, head}, {at::ones_like(loss)}));
  }
  state.counters["MiB"] = static_cast<double>(testing::CountedMemory::peak() - before) / (1 << 20);
  state.counters["tokens/s"] = benchmark::Counter(static_cast<double>(kTokens * state.iterations()),
                                                  benchmark::Counter::kIsRate);
}

enum class Text { kReadOn, kReadAnew };

/// As many tokens behind a prompt of 192, of which each depends on the one before.
void BM_Generate(benchmark::State& state, Text text) {
  StageOptions options;
  options.config = BenchConfig();
  auto stage = Stage::Create(options);
  if (!stage.ok()) return state.SkipWithError(stage.status().ToString().c_str());
  (*stage)->InitRandom(1);
  const auto vocab_size = static_cast<std::size_t>(options.config.vocab_size);
  for (auto _ : state) {
    std::vector<std::int32_t> ids(192, 1);
    auto reading = (*stage)->BeginReading(Version(0));
    std::size_t read = 0;
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      const std::span<const std::int32_t> all(ids);
      const auto count = static_cast<std::uint32_t>(ids.size());
      auto logits = text == Text::kReadOn ? (*reading)->Read(all.subspan(read))
                                          : (*stage)->Logits(Version(0), {1, count, all});
      if (!logits.ok()) return state.SkipWithError(logits.status().ToString().c_str());
      read = ids.size();
      const float* end = reinterpret_cast<const float*>(logits->data() + logits->size());
      ids.push_back(
          static_cast<std::int32_t>(std::max_element(end - vocab_size, end) - (end - vocab_size)));
    }
    benchmark::DoNotOptimize(ids.data());
  }
  state.counters["tokens/s"] = benchmark::Counter(
      static_cast<double>(state.range(0) * state.iterations()), benchmark::Counter::kIsRate);
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
    ->Arg(4)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_ForwardBackwardFold, FP16, Precision::kFP16, Accumulation::kFloat)
    ->Arg(1)
    ->Arg(4)
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

BENCHMARK_CAPTURE(BM_HeadLoss, Vocabulary32000Chunks, 32000, 0)->UseRealTime();
BENCHMARK_CAPTURE(BM_HeadLoss, Vocabulary32000Whole, 32000, 2048)->UseRealTime();
BENCHMARK_CAPTURE(BM_HeadLoss, Vocabulary151936Chunks, 151936, 0)->UseRealTime();
BENCHMARK_CAPTURE(BM_HeadLoss, Vocabulary151936Whole, 151936, 2048)->UseRealTime();
BENCHMARK_CAPTURE(BM_Generate, ReadOn, Text::kReadOn)->Arg(64)->UseRealTime();
BENCHMARK_CAPTURE(BM_Generate, ReadAnew, Text::kReadAnew)->Arg(64)->UseRealTime();

}  // namespace
}  // namespace swarm::model

BENCHMARK_MAIN();
