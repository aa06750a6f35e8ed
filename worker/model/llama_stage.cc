#include "worker/model/llama_stage.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <mutex>
#include <new>
#include <utility>

#include "worker/model/tensor_memory.h"
#include "worker/optim/fixed_point.h"

namespace swarm::model {
namespace {

/// Runs `body`; what libtorch throws becomes a Status.
template <typename Body>
auto Guarded(const char* what, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(std::string(what) + ": out of memory");
  } catch (const c10::OutOfMemoryError& error) {
    return ResourceExhausted(std::string(what) + ": " + error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return Internal(std::string(what) + ": " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    return Internal(std::string(what) + ": " + error.what());
  }
}

std::string TaskText(const TaskKey& key) {
  return "microbatch " + std::to_string(key.microbatch.value) + " of step " +
         std::to_string(key.step.value) + " at stage " + std::to_string(key.stage.value);
}

/// These are settings of the whole process; the second may be set only once.
void SetThreads(int threads) {
  static std::once_flag once;
  std::call_once(once, [] { at::set_num_interop_threads(1); });
  at::set_num_threads(threads);
}

Result<at::Device> FindDevice(const std::string& name) {
  try {
    const at::Device device(name);
    at::empty({1}, at::TensorOptions(device));
    return device;
  } catch (const c10::Error& error) {
    return Unavailable("device " + name + ": " + error.what_without_backtrace());
  }
}

}  // namespace

Result<std::unique_ptr<Stage>> Stage::Create(const StageOptions& options) {
  if (options.microbatches < 1 || options.threads < 1) {
    return InvalidArgument("stage: microbatches and threads must be positive");
  }
  Result<Layout> layout = ComputeLayout(options.config, options.stage, options.stage_count);
  if (!layout.ok()) return layout.status();
  Result<at::Device> device = FindDevice(options.device);
  if (!device.ok()) return device.status();
  return Guarded("stage", [&]() -> Result<std::unique_ptr<Stage>> {
    SetThreads(options.threads);
    KeepTensorMemory();
    return std::unique_ptr<Stage>(
        std::make_unique<LlamaStage>(options, std::move(*layout), *device));
  });
}

LlamaStage::LlamaStage(const StageOptions& options, Layout layout, at::Device device)
    : options_(options),
      layout_(std::move(layout)),
      device_(device),
      activation_codec_(codec::MakeCodec(options.boundary, codec::Direction::kForward)),
      gradient_codec_(codec::MakeCodec(options.boundary, codec::Direction::kBackward)),
      rotary_(options.config.head_dim, options.config.rope_theta, device),
      parameters_(layout_, options, device),
      gradients_(layout_, device, options.accumulation, options.microbatches) {}

void LlamaStage::InitRandom(std::uint64_t seed) {
  graphs_.clear();
  scale_levels_.clear();
  gradients_.Clear();
  parameters_.InitRandom(seed);
}

Status LlamaStage::Load(const state::TensorLookup& tensors, Version version, bool optimizer) {
  graphs_.clear();
  scale_levels_.clear();
  gradients_.Clear();
  return Guarded("load", [&] { return parameters_.Load(tensors, version, optimizer); });
}

Result<const Weights*> LlamaStage::FindWeights(Version version) const {
  const Weights* weights = parameters_.Find(version);
  if (weights != nullptr) return weights;
  return NotFound("version " + std::to_string(version.value) + " of the weights; the newest is " +
                  std::to_string(parameters_.version().value));
}

Result<at::Tensor> LlamaStage::TokenColumns(const TokenBatch& tokens, std::int64_t first,
                                            std::int64_t count) const {
  const std::int64_t rows = tokens.sequences;
  const std::int64_t columns = tokens.tokens_per_sequence;
  if (static_cast<std::int64_t>(tokens.ids.size()) != rows * columns) {
    return InvalidArgument("tokens: " + std::to_string(tokens.ids.size()) + " ids for " +
                           std::to_string(rows) + " sequences of " + std::to_string(columns));
  }
  at::Tensor ids = at::empty({rows, count}, at::kLong);
  auto* out = ids.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = first; column < first + count; ++column) {
      const std::int32_t id = tokens.ids[row * columns + column];
      if (id < 0 || id >= options_.config.vocab_size) {
        return InvalidArgument("tokens: id " + std::to_string(id) + " in a vocabulary of " +
                               std::to_string(options_.config.vocab_size));
      }
      *out++ = id;
    }
  }
  return ids.to(device_);
}

at::Tensor LlamaStage::RunLayers(const Weights& weights, at::Tensor x) {
  for (std::size_t i = 0; i < layout_.layers.size(); ++i) {
    x = DecoderLayer(options_.config, weights.layer(i), rotary_, x);
  }
  return x;
}

at::Tensor LlamaStage::RunHead(const Weights& weights, const at::Tensor& x) const {
  return HeadLogits(options_.config, weights.operands()[layout_.final_norm],
                    weights.operands()[layout_.head], x);
}

Result<LlamaStage::Graph> LlamaStage::OpenGraph(const Weights& weights, Version version,
                                                const TokenBatch& tokens,
                                                const Bytes& input) const {
  const std::int64_t length = tokens.tokens_per_sequence - 1;
  Graph graph{.version = version};
  if (layout_.slice.embedding) {
    Result<at::Tensor> ids = TokenColumns(tokens, 0, length);
    if (!ids.ok()) return ids.status();
    graph.tokens = ids->flatten();
    graph.input = at::embedding(weights.embedding(), *ids);
  } else {
    Result<at::Tensor> x =
        activation_codec_->Decode(input, {tokens.sequences, length, options_.config.hidden_size}, device_);
    if (!x.ok()) return x.status();
    graph.input = std::move(*x);
  }
  return graph;
}

Result<ForwardResult> LlamaStage::Forward(const TaskKey& key, Version version,
                                          const TokenBatch& tokens, const Bytes& input,
                                          bool keep_graph) {
  return Guarded("forward", [&] { return Execute(key, version, tokens, input, keep_graph); });
}

Result<ForwardResult> LlamaStage::Execute(const TaskKey& key, Version version,
                                          const TokenBatch& tokens, const Bytes& input,
                                          bool keep_graph) {
  const Result<const Weights*> weights = FindWeights(version);
  if (!weights.ok()) return weights.status();
  if (keep_graph && (graphs_.contains(key) || gradients_.Waits(key))) {
    return AlreadyExists("forward: " + TaskText(key) + " was executed already");
  }
  if (tokens.sequences < 1 || tokens.tokens_per_sequence < 2) {
    return InvalidArgument("forward: a microbatch needs a sequence of at least two tokens");
  }
  Result<Graph> opened = OpenGraph(**weights, version, tokens, input);
  if (!opened.ok()) return opened.status().WithContext("forward of " + TaskText(key));
  Graph graph = std::move(*opened);
  at::Tensor labels;
  if (layout_.slice.head) {
    Result<at::Tensor> ids = TokenColumns(tokens, 1, tokens.tokens_per_sequence - 1);
    if (!ids.ok()) return ids.status();
    labels = std::move(*ids);
  }
  const at::AutoGradMode mode(keep_graph);
  graph.input.set_requires_grad(keep_graph);
  graph.output = RunLayers(**weights, graph.input);
  ForwardResult result;
  if (layout_.slice.head) {
    graph.output = CrossEntropy(RunHead(**weights, graph.output), labels);
    result.loss = graph.output.item<float>();
  } else {
    ASSIGN_OR_RETURN(result.boundary, activation_codec_->Encode(graph.output));
  }
  if (keep_graph) graphs_.emplace(key, std::move(graph));
  return result;
}

Result<Bytes> LlamaStage::Backward(const TaskKey& key, const Bytes& gradient) {
  return Guarded("backward", [&] { return Differentiate(key, gradient); });
}

Result<Bytes> LlamaStage::Differentiate(const TaskKey& key, const Bytes& gradient) {
  const auto found = graphs_.find(key);
  if (found == graphs_.end()) return NotFound("backward: no graph of " + TaskText(key));
  at::Tensor output_gradient;
  if (layout_.slice.head) {
    output_gradient =
        at::full_like(found->second.output, 1.0 / static_cast<double>(options_.microbatches));
  } else {
    Result<at::Tensor> decoded = gradient_codec_->Decode(gradient, found->second.output.sizes(), device_);
    if (!decoded.ok()) return decoded.status().WithContext("backward of " + TaskText(key));
    output_gradient = std::move(*decoded);
  }
  // `output_gradient` may be memory that others read. Autograd adds to a gradient in place only
  // where it holds the last reference: this function keeps one.
  const Graph graph = std::move(graphs_.extract(found).mapped());
  torch::autograd::variable_list inputs = parameters_.Find(graph.version)->operands();
  inputs.push_back(graph.input);
  torch::autograd::variable_list results =
      torch::autograd::grad({graph.output}, inputs, {output_gradient});
  const at::Tensor input_gradient = std::move(results.back());
  results.pop_back();

  MicrobatchGradients gradients{.operands = std::move(results)};
  if (layout_.slice.embedding) {
    gradients.tokens = graph.tokens;
    gradients.embedded = input_gradient.flatten(0, 1);
  }
  gradients_.Put(key, std::move(gradients));
  if (layout_.slice.embedding) return Bytes();
  return gradient_codec_->Encode(input_gradient);
}

std::vector<int> LlamaStage::ExponentsOf(Step step) const {
  return exact() ? parameters_.Exponents(step, ScaleLevel(step)) : std::vector<int>();
}

Status LlamaStage::Fold(const TaskKey& key) {
  return Guarded("fold", [&] { return gradients_.Fold(key, ExponentsOf(key.step)); });
}

Status LlamaStage::Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite) {
  return Guarded("absorb", [&] { return gradients_.Absorb(step, group, elements, finite); });
}

void LlamaStage::Drop(const TaskKey& key) {
  graphs_.erase(key);
  gradients_.Drop(key);
}

GradientSum LlamaStage::Accumulator(Step step, std::uint64_t group) {
  return gradients_.Sum(step, group, ExponentsOf(step));
}

Status LlamaStage::SetScaleLevel(Step step, unsigned level) {
  if (level > (exact() ? optim::kScaleLevelMax : 0)) {
    return InvalidArgument("scale level " + std::to_string(level) + ": the highest is " +
                           std::to_string(exact() ? optim::kScaleLevelMax : 0));
  }
  gradients_.ClearSums(step);
  if (level == 0) {
    scale_levels_.erase(step);
  } else {
    scale_levels_[step] = level;
  }
  return {};
}

unsigned LlamaStage::ScaleLevel(Step step) const {
  const auto found = scale_levels_.find(step);
  return found == scale_levels_.end() ? 0 : found->second;
}

void LlamaStage::ReleaseStep(Step step) {
  std::erase_if(graphs_, [&](const auto& entry) { return entry.first.step == step; });
  gradients_.Release(step);
  scale_levels_.erase(step);
}

Status LlamaStage::Apply(std::span<const Bytes> sums, double clip, double learning_rate,
                         bool skip) {
  return Guarded("apply", [&]() -> Status {
    const unsigned level = ScaleLevel(Step(version().value));
    Status status = parameters_.Apply(sums, {clip, learning_rate, skip, level});
    // The weights that a graph refers to are overwritten when its version goes.
    std::erase_if(graphs_, [&](const auto& entry) {
      return parameters_.Find(entry.second.version) == nullptr;
    });
    return status;
  });
}

Result<Bytes> LlamaStage::Logits(Version version, const TokenBatch& tokens) {
  if (!layout_.slice.embedding || !layout_.slice.head) {
    return FailedPrecondition("logits: this stage is a part of the model only");
  }
  return Guarded("logits", [&]() -> Result<Bytes> {
    const at::NoGradGuard no_gradients;
    const Result<const Weights*> weights = FindWeights(version);
    if (!weights.ok()) return weights.status();
    if (tokens.ids.empty()) return InvalidArgument("logits: no tokens");
    const Result<at::Tensor> ids = TokenColumns(tokens, 0, tokens.tokens_per_sequence);
    if (!ids.ok()) return ids.status();
    const at::Tensor x = RunLayers(**weights, at::embedding((*weights)->embedding(), *ids));
    return codec::MakeCodec({}, codec::Direction::kForward)->Encode(RunHead(**weights, x));
  });
}

}  // namespace swarm::model
