#include "worker/model/decoder/decoder_stage.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "api/model/boundary.h"
#include "api/model/decoder_config.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/transfers.h"
#include "worker/model/arithmetic/boundary.h"
#include "worker/model/arithmetic/half.h"
#include "worker/model/arithmetic/head_loss.h"
#include "worker/model/arithmetic/recompute.h"
#include "worker/model/arithmetic/subspace.h"
#include "worker/model/decoder/tensor_memory.h"
#include "worker/model/determinism.h"
#include "worker/model/open_device.h"
#include "worker/model/start/start.h"
#include "worker/model/task_text.h"
#include "worker/token.h"

namespace swarm::model {
namespace {

constexpr const char* kLessMemory =
    "; pipeline.inFlightMax bounds how many microbatches a worker holds at once";
constexpr const char* kNotExact =
    "; training.accumulation: Exact needs one on this device, and Float does not";

/// Runs `body`, and turns an exception of libtorch into a Status.
template <typename Body>
auto Guarded(const char* what, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(std::string(what) + ": out of memory" + kLessMemory);
  } catch (const c10::OutOfMemoryError& error) {
    return ResourceExhausted(std::string(what) + ": " + error.what_without_backtrace() +
                             kLessMemory);
  } catch (const c10::Error& error) {
    if (LacksDeterministicForm(error.what_without_backtrace())) {
      return FailedPrecondition(std::string(what) + ": " + error.what_without_backtrace() +
                                kNotExact);
    }
    return Internal(std::string(what) + ": " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    return Internal(std::string(what) + ": " + error.what());
  }
}

/// These are settings of the whole process; the second may be set only once.
void SetThreads(int threads) {
  static std::once_flag once;
  std::call_once(once, [] { at::set_num_interop_threads(1); });
  at::set_num_threads(threads);
  // Operands that are scaled to the end of binary16's range (half.h) have no room for sums in it.
  at::globalContext().setAllowFP16ReductionCuBLAS(false);
}

/// One thread copies less than the memory offers.
void CopyOnAllThreads(void* to, const void* from, std::size_t bytes) {
  constexpr std::int64_t kOfThread = 1 << 20;
  at::parallel_for(0, static_cast<std::int64_t>(bytes), kOfThread,
                   [&](std::int64_t begin, std::int64_t end) {
                     std::memcpy(static_cast<std::byte*>(to) + begin,
                                 static_cast<const std::byte*>(from) + begin,
                                 static_cast<std::size_t>(end - begin));
                   });
}

double ReadLoss(const Bytes& encoded) {
  float loss = 0;
  std::memcpy(&loss, encoded.data(), sizeof loss);
  return loss;
}

/// Bounds what is on its way between host and device; results that wait to be sent are copied out
/// of it when they hold half.
constexpr std::size_t kPinnedMax = std::size_t{1} << 30;

}  // namespace

Result<DecoderStage::Ways> OpenWays(const StageOptions& options) {
  ASSIGN_OR_RETURN(const at::Device device, OpenDevice(options.device));
  std::shared_ptr<device::Device> streams = options.streams;
  if (device.is_cuda() && streams == nullptr) {
    ASSIGN_OR_RETURN(streams, device::MakeCudaDevice(device.index()));
  }
  const std::shared_ptr<StateMemory> host = MakeHostMemory();
  if (streams == nullptr) return DecoderStage::Ways{device, MakeHostPort(), host, host};
  const auto transfers = std::make_shared<device::Transfers>(streams, kPinnedMax, CopyOnAllThreads);
  const std::shared_ptr<StateMemory> there = MakeDeviceMemory(device, streams, transfers);
  const bool resident = options.residency == api::Residency::kResident;
  return DecoderStage::Ways{device, MakeDevicePort(device, transfers), resident ? there : host,
                            there};
}

Result<std::unique_ptr<Stage>> MakeDecoderStage(const StageOptions& options,
                                                DecoderStage::Ways ways) {
  Result<Layout> layout =
      options.part ? ComputePartLayout(options.config, options.stage, options.stage_count,
                                       *options.part, options.lora)
                   : ComputeParameterLayout(options.config, options.stage, options.stage_count,
                                            options.boundary, options.lora);
  if (!layout.ok()) return layout.status();
  return Guarded("stage", [&]() -> Result<std::unique_ptr<Stage>> {
    SetThreads(options.threads);
    SetDeterminism(options.device, options.accumulation == api::Accumulation::kExact);
    KeepTensorMemory();
    return std::unique_ptr<Stage>(
        std::make_unique<DecoderStage>(options, std::move(*layout), std::move(ways)));
  });
}

DecoderStage::DecoderStage(const StageOptions& options, Layout layout, Ways ways)
    : options_(options),
      layout_(std::move(layout)),
      ways_(std::move(ways)),
      device_(ways_.device),
      port_(ways_.port.get()),
      activation_codec_(codec::MakeCodec(options.boundary, codec::Direction::kForward)),
      gradient_codec_(codec::MakeCodec(options.boundary, codec::Direction::kBackward)),
      loss_codec_(codec::MakeCodec({}, codec::Direction::kForward)),
      lossy_(api::ForwardNumbers(options.boundary) != api::NumberCodec::kNone ||
             api::BackwardNumbers(options.boundary) != api::NumberCodec::kNone),
      positions_(options.config, device_),
      fixed_in_basis_(options.step_mode == api::StepMode::kDelayed ? 2 : 1),
      parameters_(layout_, options, device_, *ways_.state, *ways_.sums, ways_.given),
      gradients_(layout_, device_, options.accumulation, options.microbatches, options.audited,
                 *ways_.sums),
      scale_levels_(options.accumulation) {}

void DecoderStage::InitRandom(std::uint64_t seed) {
  graphs_.clear();
  scale_levels_.Clear();
  gradients_.Clear();
  PrepareSubspace(seed);
  parameters_.InitRandom(seed);
}

Status DecoderStage::Load(const checkpoint::TensorLookup& tensors, Version version,
                          bool optimizer) {
  graphs_.clear();
  scale_levels_.Clear();
  gradients_.Clear();
  return Guarded("load", [&] {
    PrepareSubspace(options_.seed);
    return parameters_.Load(tensors, version, optimizer);
  });
}

Status DecoderStage::Replace(const checkpoint::TensorLookup& weights) {
  if (options_.step_mode != api::StepMode::kSync || options_.divided ||
      options_.accumulation == api::Accumulation::kExact) {
    return Stage::Replace(weights);
  }
  graphs_.clear();
  return Guarded("replace", [&] { return parameters_.Replace(weights); });
}

void DecoderStage::PrepareSubspace(std::uint64_t seed) {
  if (!layout_.constrained_embedding) return;
  fixed_in_basis_.Clear();
  const api::DecoderConfig& config = options_.config;
  const auto rank = static_cast<std::int64_t>(options_.boundary.rank);
  std::vector<float> basis = StartBasis(seed, config.hidden_size, rank);
  std::vector<float> table = StartEmbedding(seed, config);
  const auto width = static_cast<std::size_t>(config.hidden_size);
  at::parallel_for(0, config.vocab_size, 64, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> coefficients(options_.boundary.rank);
    for (auto id = static_cast<std::size_t>(begin); id < static_cast<std::size_t>(end); ++id) {
      const std::span<float> row = std::span(table).subspan(id * width, width);
      ProjectRow(row, basis, coefficients);
      SubtractExpansion(coefficients, basis, row);
    }
  });
  const auto to_device = [&](std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
    return at::from_blob(values.data(), {rows, columns}, at::kFloat).clone().to(device_);
  };
  subspace_ = {to_device(basis, config.hidden_size, rank),
               to_device(table, config.vocab_size, config.hidden_size)};
}

Result<const Weights*> DecoderStage::FindWeights(Version version) const {
  const Weights* weights = parameters_.Find(version);
  if (weights != nullptr) return weights;
  return NotHeld(version, parameters_.version());
}

Status DecoderStage::WithWeights(Version version, const std::function<Status()>& body) {
  const Weights* weights = parameters_.Find(version);
  StateAccess access;
  if (weights != nullptr) access.reads = weights->masters();
  Status status;
  ways_.state->Compute(access, [&] { status = body(); });
  return status;
}

Result<at::Tensor> DecoderStage::TokenColumns(const TokenBatch& tokens, Read as,
                                              std::int64_t length) const {
  const std::int64_t rows = tokens.sequences;
  const std::int64_t columns = tokens.tokens_per_sequence;
  const std::int64_t first = as == Read::kLabels ? 1 : 0;
  at::Tensor ids = at::empty({rows, length}, at::kLong);
  auto* out = ids.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = first; column < first + length; ++column) {
      const Token token = Token::Read(tokens.ids[row * columns + column]);
      if (token.id >= options_.config.vocab_size) {
        return InvalidArgument("tokens: id " + std::to_string(token.id) + " in a vocabulary of " +
                               std::to_string(options_.config.vocab_size));
      }
      *out++ = as == Read::kLabels && !token.learned ? -1 : token.id;
    }
  }
  return ids;
}

Result<std::shared_ptr<const Documents>> DecoderStage::DocumentsOf(const TokenBatch& tokens,
                                                                   std::int64_t length) const {
  const std::int64_t rows = tokens.sequences;
  auto documents = std::make_shared<Documents>();
  documents->positions = at::empty({rows, length}, at::kLong);
  auto* position = documents->positions.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto ids = tokens.ids.subspan(row * tokens.tokens_per_sequence, length);
    for (std::int64_t column = 0; column < length; ++column) {
      if (column == 0 || Token::Read(ids[column]).begins) documents->lengths.push_back(0);
      *position++ = documents->lengths.back()++;
    }
  }
  std::shared_ptr<const Documents> none;
  if (std::ssize(documents->lengths) == rows) return none;
  ASSIGN_OR_RETURN(documents->positions, port_->Place(documents->positions));
  return std::shared_ptr<const Documents>(std::move(documents));
}

Subspace DecoderStage::SubspaceOf(const Weights& weights) const {
  if (!layout_.basis) return subspace_;
  return {weights.operands()[*layout_.basis].detach(), subspace_.fixed};
}

at::Tensor DecoderStage::EmbeddedTokens(const Weights& weights, const Pass& pass) const {
  const at::Tensor& rows = pass.rows[layout_.embedding];
  if (layout_.constrained_embedding) return ExpandInSubspace(SubspaceOf(weights), pass.ids, rows);
  if (!options_.config.scaled_embedding) return rows;
  return rows * std::sqrt(static_cast<double>(options_.config.hidden_size));
}

at::Tensor DecoderStage::SendAt(std::int64_t layer, const Weights& weights, const Pass& pass,
                                const at::Tensor& x) const {
  return Send(options_.boundary, weights.boundary(layer), SubspaceOf(weights),
              {.fixed_in_basis = pass.fixed_in_basis}, options_.config.rms_norm_eps, x);
}

at::Tensor DecoderStage::ReceiveAt(std::int64_t layer, const Weights& weights, const Pass& pass,
                                   const at::Tensor& z) const {
  Anchors anchors{.ids = pass.ids};
  if (layout_.basis && layer == layout_.last_boundary) {
    return ReceiveAndObserve({weights.operands()[*layout_.basis], subspace_.fixed}, anchors, z);
  }
  const auto halves = layout_.boundaries.find(layer);
  if (halves != layout_.boundaries.end() && halves->second.table) {
    anchors.rows = pass.rows[*halves->second.table];
  }
  return Receive(options_.boundary, weights.boundary(layer), SubspaceOf(weights), anchors, z);
}

at::Tensor DecoderStage::RunLayers(const Weights& weights, const Pass& pass,
                                   std::span<PastTokens> past) {
  const std::int64_t first = layout_.slice.first;
  at::Tensor x = layout_.slice.embedding ? EmbeddedTokens(weights, pass)
                                         : ReceiveAt(first, weights, pass, pass.input);
  NoteGradientOf(x, first);
  for (std::size_t i = 0; i < layout_.layers.size(); ++i) {
    const std::int64_t layer = first + static_cast<std::int64_t>(i);
    if (i > 0 && layout_.boundaries.contains(layer)) {
      at::Tensor z = SendAt(layer, weights, pass, x);
      if (lossy_) z = Cross(z, *activation_codec_, *gradient_codec_);
      x = ReceiveAt(layer, weights, pass, z);
    }
    PastTokens* const before = past.empty() ? nullptr : &past[i];
    const auto run = [this, i, &weights, before,
                      documents = pass.documents](const std::vector<at::Tensor>& inputs) {
      return RunLayer(i, weights, inputs[0], documents.get(), before);
    };
    const bool again = options_.recompute == api::Recompute::kLayers && before == nullptr;
    {
      const SpanTimer timer(spans(), SpanOf(SpanKind::kLayerForward, layer));
      x = again ? Recomputed(run, {x}, weights.trained()) : run({x});
    }
    NoteGradientOf(x, layer + 1);
  }
  return x;
}

Span DecoderStage::SpanOf(SpanKind kind, std::uint64_t layer) const {
  return {.kind = kind,
          .stage = computing_.stage.value,
          .step = computing_.step.value,
          .microbatch = computing_.microbatch.value,
          .layer = layer};
}

std::function<void()> DecoderStage::BeginEncode() const {
  if (boundary_spans() == nullptr) return [] {};
  Span span = SpanOf(SpanKind::kEncode);
  span.begin = Clock::now();
  return [spans = spans(), span]() mutable {
    span.end = Clock::now();
    spans->Record(span);
  };
}

void DecoderStage::NoteGradientOf(const at::Tensor& x, std::int64_t layer) {
  if (spans() == nullptr || !x.requires_grad()) return;
  // A hook that returns nothing leaves the gradient as it is. On the CPU the thread that asks for
  // the backward runs it.
  x.register_hook([this, layer](const at::Tensor&) {
    const std::int64_t end = layout_.slice.first + std::ssize(layout_.layers);
    const Timepoint now = Clock::now();
    if (layer < end) {
      Span span = SpanOf(SpanKind::kLayerBackward, layer);
      span.begin = layer_began_;
      span.end = now;
      spans()->Record(span);
    }
    layer_began_ = now;
  });
}

at::Tensor DecoderStage::RunLayer(std::size_t index, const Weights& weights, const at::Tensor& x,
                                  const Documents* documents, PastTokens* past) {
  const std::int64_t layer = layout_.slice.first + static_cast<std::int64_t>(index);
  const at::Tensor basis =
      layout_.layers[index].constrained ? SubspaceOf(weights).basis : at::Tensor();
  LayerWeights of_layer = weights.layer(index);
  if (options_.lora.rank > 0) of_layer.adapter_scale = options_.lora.scale();
  return DecoderLayer(options_.config, api::LayerOf(options_.config, layer), of_layer, basis,
                      positions_, x, documents, past);
}

at::Tensor DecoderStage::RunBody(const Weights& weights, const Pass& pass) {
  if (options_.recompute != api::Recompute::kFull) return RunLayers(weights, pass);
  std::vector<at::Tensor> inputs = pass.rows;
  if (pass.input.defined()) inputs.push_back(pass.input);
  const auto run = [this, &weights, pass](const std::vector<at::Tensor>& leaves) {
    Pass again = pass;
    again.rows.assign(leaves.begin(), leaves.begin() + std::ssize(pass.rows));
    if (pass.input.defined()) again.input = leaves.back();
    return RunLayers(weights, again);
  };
  return Recomputed(run, inputs, weights.trained());
}

at::Tensor DecoderStage::NormAtEnd(const Weights& weights, const at::Tensor& x) const {
  return ModelNorm(options_.config, x, weights.operands()[layout_.final_norm]);
}

at::Tensor DecoderStage::LogitsOf(const Weights& weights, const at::Tensor& normed) const {
  const at::Tensor head = HeadOf(weights).to(MatrixType(options_.precision));
  return SoftCapped(Project(normed, head).to(at::kFloat), options_.config.final_logit_softcapping);
}

at::Tensor DecoderStage::HeadOf(const Weights& weights) const {
  const at::Tensor& head = weights.operands()[layout_.head];
  if (!layout_.constrained_embedding || !options_.config.tie_word_embeddings) return head;
  const Subspace subspace = SubspaceOf(weights);
  const at::Tensor whole = subspace.fixed + Project(Widened(head), subspace.basis);
  // The gradient of what is rounded to binary16 would be rounded, too: HeadLoss rounds this itself.
  return head.scalar_type() == at::kHalf ? whole : whole.to(head.scalar_type());
}

Status DecoderStage::CheckLength(std::int64_t tokens) const {
  const std::int64_t positions = options_.config.max_position_embeddings;
  if (options_.config.rope.type != api::RopeType::kDynamic || tokens <= positions) return Status();
  return InvalidArgument("tokens: sequences of " + std::to_string(tokens) +
                         " tokens; a rotary embedding of the type dynamic would change beyond "
                         "max_position_embeddings (" +
                         std::to_string(positions) + "), which is not supported");
}

Result<DecoderStage::Pass> DecoderStage::OpenPass(const Weights& weights, const TokenBatch& tokens,
                                                  std::int64_t length, const Bytes& input) {
  RETURN_IF_ERROR(CheckLength(length));
  RETURN_IF_ERROR(CheckSize(tokens));
  Pass pass;
  ASSIGN_OR_RETURN(pass.documents, DocumentsOf(tokens, length));
  if (!layout_.tables.empty() || layout_.constrained_embedding) {
    ASSIGN_OR_RETURN(pass.ids_on_host, TokenColumns(tokens, Read::kInputs, length));
    ASSIGN_OR_RETURN(pass.ids, port_->Place(pass.ids_on_host));
  }
  for (const at::Tensor& table : weights.tables()) {
    pass.rows.push_back(at::embedding(table, pass.ids));
  }
  if (layout_.basis && layout_.sends()) {
    pass.fixed_in_basis = at::embedding(fixed_in_basis_.Of(SubspaceOf(weights)), pass.ids);
  }
  if (layout_.slice.embedding) return pass;
  const std::int64_t width =
      api::CoefficientsPerToken(options_.boundary, options_.config.hidden_size);
  const SpanTimer timer(boundary_spans(), SpanOf(SpanKind::kDecode));
  ASSIGN_OR_RETURN(pass.input,
                   port_->Receive(*activation_codec_, input, {tokens.sequences, length, width}));
  return pass;
}

void DecoderStage::SubmitForward(const TaskKey& key, Version version, const TokenBatch& tokens,
                                 const Bytes& input, bool keep_graph, Done<ForwardResult> done) {
  const Status status = Guarded("forward", [&] {
    return WithWeights(version,
                       [&] { return Execute(key, version, tokens, input, keep_graph, done); });
  });
  if (!status.ok()) done(status);
}

Status DecoderStage::Execute(const TaskKey& key, Version version, const TokenBatch& tokens,
                             const Bytes& input, bool keep_graph, const Done<ForwardResult>& done) {
  computing_ = key;
  const Result<const Weights*> weights = FindWeights(version);
  if (!weights.ok()) return weights.status();
  if (keep_graph && (graphs_.contains(key) || gradients_.Waits(key))) {
    return AlreadyExists("forward: " + TaskText(key) + " was executed already");
  }
  RETURN_IF_ERROR(CheckPredicts(tokens));
  Result<Pass> opened = OpenPass(**weights, tokens, tokens.tokens_per_sequence - 1, input);
  if (!opened.ok()) return opened.status().WithContext("forward of " + TaskText(key));
  Graph graph{.version = version, .pass = std::move(*opened)};
  at::Tensor labels, counted;
  if (layout_.slice.head) {
    ASSIGN_OR_RETURN(const at::Tensor ids,
                     TokenColumns(tokens, Read::kLabels, tokens.tokens_per_sequence - 1));
    ASSIGN_OR_RETURN(labels, port_->Place(ids));
    const at::Tensor positions = ids.flatten().ge(0).nonzero().squeeze(1);
    if (positions.numel() < ids.numel()) {
      ASSIGN_OR_RETURN(counted, port_->Place(positions));
    }
  }
  const at::AutoGradMode mode(keep_graph);
  for (std::size_t i = 0; i < graph.pass.rows.size(); ++i) {
    graph.pass.rows[i].set_requires_grad(keep_graph && !layout_.tables[i].frozen);
  }
  if (graph.pass.input.defined()) graph.pass.input.set_requires_grad(keep_graph);
  graph.output = RunBody(**weights, graph.pass);
  if (layout_.slice.head) {
    const at::Tensor normed = NormAtEnd(**weights, graph.output);
    graph.output =
        HeadLoss(normed, HeadOf(**weights), labels,
                 {.tokens_at_once = LossTokensAtOnce(options_.config.vocab_size, device_.is_cuda()),
                  .z_loss = options_.z_loss,
                  .cap = options_.config.final_logit_softcapping,
                  .type = MatrixType(options_.precision),
                  .counted = counted});
  } else {
    const std::int64_t end = layout_.slice.first + layout_.slice.count;
    graph.output = SendAt(end, **weights, graph.pass, graph.output);
  }
  const at::Tensor output = graph.output;
  if (keep_graph) graphs_.emplace(key, std::move(graph));
  if (layout_.slice.head) {
    port_->Send(*loss_codec_, output, [done](const Result<Bytes>& loss) {
      done(loss.ok() ? Result<ForwardResult>({Bytes(), ReadLoss(*loss)}) : loss.status());
    });
  } else {
    port_->Send(*activation_codec_, output,
                [done, encoded = BeginEncode()](Result<Bytes> boundary) {
                  encoded();
                  done(boundary.ok() ? Result<ForwardResult>({*std::move(boundary), 0})
                                     : boundary.status());
                });
  }
  return {};
}

void DecoderStage::SubmitBackward(const TaskKey& key, const Bytes& gradient,
                                  Done<BackwardResult> done) {
  const auto graph = graphs_.find(key);
  const Version version = graph == graphs_.end() ? Version() : graph->second.version;
  const Status status = Guarded("backward", [&] {
    return WithWeights(version, [&] { return Differentiate(key, gradient, done); });
  });
  if (!status.ok()) done(status);
}

Status DecoderStage::Differentiate(const TaskKey& key, const Bytes& gradient,
                                   const Done<BackwardResult>& done) {
  computing_ = key;
  const auto found = graphs_.find(key);
  if (found == graphs_.end()) return NotFound("backward: no graph of " + TaskText(key));
  at::Tensor output_gradient;
  if (layout_.slice.head) {
    output_gradient =
        at::full_like(found->second.output, 1.0 / static_cast<double>(options_.microbatches));
  } else {
    Result<at::Tensor> decoded = at::Tensor();
    {
      const SpanTimer timer(boundary_spans(), SpanOf(SpanKind::kDecode));
      decoded = port_->Receive(*gradient_codec_, gradient, found->second.output.sizes());
    }
    if (!decoded.ok()) return decoded.status().WithContext("backward of " + TaskText(key));
    output_gradient = std::move(*decoded);
  }
  // `output_gradient` may be memory that others read. Autograd adds to a gradient in place only
  // where it holds the last reference: this function keeps one.
  const Graph graph = std::move(graphs_.extract(found).mapped());
  torch::autograd::variable_list inputs = parameters_.Find(graph.version)->trained();
  for (const at::Tensor& rows : graph.pass.rows) {
    if (rows.requires_grad()) inputs.push_back(rows);
  }
  if (graph.pass.input.defined()) inputs.push_back(graph.pass.input);
  const torch::autograd::variable_list results =
      torch::autograd::grad({graph.output}, inputs, {output_gradient}, /*retain_graph=*/{},
                            /*create_graph=*/false, /*allow_unused=*/layout_.basis.has_value());
  MicrobatchGradients gradients;
  auto next = results.begin();
  for (const Operand& operand : layout_.operands) {
    gradients.operands.push_back(operand.frozen ? at::Tensor() : *next++);
  }
  for (const Operand& table : layout_.tables) {
    gradients.rows.push_back(table.frozen ? at::Tensor() : (next++)->flatten(0, 1));
  }
  if (!gradients.rows.empty()) gradients.tokens = graph.pass.ids_on_host.flatten();
  gradients_.Put(key, std::move(gradients));
  const auto measured = std::make_shared<GradientStore::Measured>();
  const auto sent = [done, measured](Result<Bytes> gradient) {
    done(gradient.ok()
             ? Result<BackwardResult>({*std::move(gradient), measured->fits, measured->digest})
             : gradient.status());
  };
  const std::vector<int> exponents = ExponentsOf(key.step);
  const auto measurement = gradients_.Measure(key, exponents);
  if (!measurement) *measured = gradients_.MeasureHere(key, exponents);
  const bool returns = graph.pass.input.defined();
  if (measurement) {
    // What is sent comes in order: this before the gradient.
    port_->Send(*loss_codec_, measurement->numbers,
                [take = measurement->take, measured, sent, returns](const Result<Bytes>& numbers) {
                  *measured = take(numbers);
                  if (!returns) sent(numbers.ok() ? Result<Bytes>(Bytes()) : numbers.status());
                });
  }
  if (returns) {
    port_->Send(*gradient_codec_, results.back(),
                [sent, encoded = BeginEncode()](Result<Bytes> gradient) {
                  encoded();
                  sent(std::move(gradient));
                });
  } else if (!measurement) {
    port_->Finish(sent);
  }
  return {};
}

std::vector<int> DecoderStage::ExponentsOf(Step step) const {
  return exact() ? parameters_.Exponents(step, scale_levels_.Of(step)) : std::vector<int>();
}

Status DecoderStage::Fold(const TaskKey& key) {
  return Guarded("fold", [&] { return gradients_.Fold(key, ExponentsOf(key.step)); });
}

Status DecoderStage::Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite) {
  return Guarded("absorb", [&] { return gradients_.Absorb(step, group, elements, finite); });
}

void DecoderStage::Drop(const TaskKey& key) {
  graphs_.erase(key);
  gradients_.Drop(key);
}

GradientSum DecoderStage::Accumulator(Step step, std::uint64_t group) {
  auto sum = gradients_.BeginSum(step, group, ExponentsOf(step))();
  SWARM_CHECK(sum.ok(), sum.status().message());  // without its device, the process has no use
  return *std::move(sum);
}

std::function<Result<GradientSum>()> DecoderStage::BeginAccumulator(Step step,
                                                                    std::uint64_t group) {
  return gradients_.BeginSum(step, group, ExponentsOf(step));
}

Status DecoderStage::SetScaleLevel(Step step, unsigned level) {
  RETURN_IF_ERROR(scale_levels_.Set(step, level));
  gradients_.ClearSums(step);
  return {};
}

void DecoderStage::ReleaseStep(Step step) {
  std::erase_if(graphs_, [&](const auto& entry) { return entry.first.step == step; });
  gradients_.Release(step);
  scale_levels_.Forget(step);
}

Status DecoderStage::Apply(std::span<const Bytes> sums, double clip, double learning_rate,
                           bool skip) {
  return Guarded("apply", [&]() -> Status {
    const Step step(version().value);
    const ApplyOptions options{clip, learning_rate, skip, scale_levels_.Of(step)};
    // What nothing was added to is still on the device.
    const auto here = AppliesOwn() ? gradients_.SumsBehind(step, sums) : std::vector<StateBlock>();
    const Status status =
        here.empty() ? parameters_.Apply(sums, options) : parameters_.ApplyFrom(here, options);
    DropGraphs();
    return status;
  });
}

bool DecoderStage::AppliesOwn() const {
  return ways_.state == ways_.sums && !ways_.state->on_host() && !exact() && !options_.divided &&
         !layout_.basis && options_.optimizer.type != api::OptimizerType::kMuon;
}

Result<std::vector<double>> DecoderStage::OwnNorms(Step step, std::uint64_t group) {
  return Guarded("norms", [&] { return gradients_.Norms(step, group); });
}

Status DecoderStage::ApplyOwn(double clip, double learning_rate, bool skip) {
  return Guarded("apply", [&] {
    const Status status = parameters_.ApplyFrom(gradients_.SumsOf(Step(version().value)),
                                                {clip, learning_rate, skip, /*scale_level=*/0});
    DropGraphs();
    return status;
  });
}

Result<std::vector<Bytes>> DecoderStage::BeginApply(std::span<const Bytes> sums, double clip,
                                                    double learning_rate, bool skip,
                                                    const Division& division) {
  return Guarded("apply", [&]() -> Result<std::vector<Bytes>> {
    const unsigned level = scale_levels_.Of(Step(version().value));
    auto weights = parameters_.BeginApply(sums, {clip, learning_rate, skip, level}, division);
    DropGraphs();
    return weights;
  });
}

Status DecoderStage::FinishApply(std::span<const Bytes> weights) {
  return Guarded("apply", [&] { return parameters_.FinishApply(weights); });
}

void DecoderStage::DropGraphs() {
  std::erase_if(graphs_, [&](const auto& entry) {
    return parameters_.Find(entry.second.version) == nullptr;
  });
}

Status DecoderStage::CheckWhole(const char* what) const {
  if (layout_.slice.embedding && layout_.slice.head) return Status();
  return FailedPrecondition(std::string(what) + ": this stage is a part of the model only");
}

Result<Bytes> DecoderStage::Logits(Version version, const TokenBatch& tokens) {
  RETURN_IF_ERROR(CheckWhole("logits"));
  return Guarded("logits", [&]() -> Result<Bytes> {
    Result<Bytes> logits = Bytes();
    const Status status = WithWeights(version, [&] {
      logits = ComputeLogits(version, tokens);
      return logits.status();
    });
    if (!status.ok()) return status;
    return logits;
  });
}

Result<Bytes> DecoderStage::ComputeLogits(Version version, const TokenBatch& tokens) {
  const at::NoGradGuard no_gradients;
  const Result<const Weights*> weights = FindWeights(version);
  if (!weights.ok()) return weights.status();
  if (tokens.ids.empty()) return InvalidArgument("logits: no tokens");
  ASSIGN_OR_RETURN(const Pass pass,
                   OpenPass(**weights, tokens, tokens.tokens_per_sequence, Bytes()));
  const at::Tensor normed = NormAtEnd(**weights, RunLayers(**weights, pass));
  const at::Tensor logits = LogitsOf(**weights, normed);
  return codec::MakeCodec({}, codec::Direction::kForward)->Encode(logits);
}

// Holds what DecoderLayer needs to read on; a stage with boundaries inside needs all of the text.
class DecoderStage::TextReading final : public Reading {
 public:
  TextReading(DecoderStage& stage, Version version) : stage_(stage), version_(version) {
    if (stage.layout_.boundaries.empty()) past_.resize(stage.layout_.layers.size());
  }

  Result<Bytes> Read(std::span<const std::int32_t> ids) override {
    if (ids.empty()) return InvalidArgument("reading: no tokens");
    return Guarded("reading", [&]() -> Result<Bytes> {
      Result<Bytes> logits = Bytes();
      const Status status = stage_.WithWeights(version_, [&] {
        logits = ReadOn(ids);
        return logits.status();
      });
      if (!status.ok()) return status;
      return logits;
    });
  }

 private:
  Result<Bytes> ReadOn(std::span<const std::int32_t> ids) {
    const at::NoGradGuard no_gradients;
    // DecoderLayer takes many tokens at the beginning only.
    const bool together = past_.empty() || read_.empty();
    read_.insert(read_.end(), ids.begin(), ids.end());
    if (together) return Run(read_);
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      RETURN_IF_ERROR(Run(ids.subspan(i, 1)).status());
    }
    return Run(ids.last(1));
  }

  Result<Bytes> Run(std::span<const std::int32_t> ids) {
    const Result<const Weights*> weights = stage_.FindWeights(version_);
    if (!weights.ok()) return weights.status();
    const auto count = static_cast<std::int64_t>(ids.size());
    const TokenBatch batch{1, static_cast<std::uint32_t>(count), ids};
    RETURN_IF_ERROR(stage_.CheckLength(static_cast<std::int64_t>(read_.size())));
    ASSIGN_OR_RETURN(const Pass pass, stage_.OpenPass(**weights, batch, count, Bytes()));
    const at::Tensor x = stage_.RunLayers(**weights, pass, past_);
    const at::Tensor normed = stage_.NormAtEnd(**weights, x.narrow(1, count - 1, 1));
    const at::Tensor logits = stage_.LogitsOf(**weights, normed);
    return codec::MakeCodec({}, codec::Direction::kForward)->Encode(logits);
  }

  DecoderStage& stage_;
  const Version version_;
  std::vector<PastTokens> past_;  // one a layer; none in a stage with boundaries inside
  std::vector<std::int32_t> read_;
};

Result<std::unique_ptr<Reading>> DecoderStage::BeginReading(Version version) {
  RETURN_IF_ERROR(CheckWhole("reading"));
  RETURN_IF_ERROR(FindWeights(version).status());
  return std::unique_ptr<Reading>(std::make_unique<TextReading>(*this, version));
}

}  // namespace swarm::model
