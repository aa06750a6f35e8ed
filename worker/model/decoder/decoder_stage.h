// The Stage that computes with libtorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "worker/codec/codec.h"
#include "worker/model/arithmetic/decoder.h"
#include "worker/model/decoder/gradient_store.h"
#include "worker/model/decoder/parameter_store.h"
#include "worker/model/decoder/port.h"
#include "worker/model/decoder/state_memory.h"
#include "worker/model/exact_sums.h"
#include "worker/model/layout/layout.h"
#include "worker/model/stage.h"

namespace swarm::model {

/// Computes with autograd on one device. Has more than 25 methods: the 29 functions of Stage, and
/// the steps of a microbatch's forward and backward.
class DecoderStage final : public Stage {
 public:
  /// How a stage reaches its device, and where its state is: `state` has masters and moments,
  /// `sums` the accumulators. They may be one. `given`: those blocks of the state that are there.
  struct Ways {
    at::Device device;
    std::shared_ptr<Port> port;
    std::shared_ptr<StateMemory> state, sums;
    StateBlocks given = {};
  };
  DecoderStage(const StageOptions& options, Layout layout, Ways ways);

  const std::vector<ParameterSlot>& parameters() const override { return layout_.slots; }
  const std::vector<ParameterSlot>& frozen() const override { return layout_.frozen; }
  const std::vector<ParameterGroup>& groups() const override { return layout_.groups; }
  Version version() const override { return parameters_.version(); }

  void InitRandom(std::uint64_t seed) override;
  Status Load(const checkpoint::TensorLookup& tensors, Version version, bool optimizer) override;
  Status Replace(const checkpoint::TensorLookup& weights) override;
  std::vector<checkpoint::NamedTensor> State() const override { return parameters_.State(); }

  void SubmitForward(const TaskKey& key, Version version, const TokenBatch& tokens,
                     const Bytes& input, bool keep_graph, Done<ForwardResult> done) override;
  void SubmitBackward(const TaskKey& key, const Bytes& gradient,
                      Done<BackwardResult> done) override;
  Status Fold(const TaskKey& key) override;
  Status Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite) override;
  void Drop(const TaskKey& key) override;

  GradientSum Accumulator(Step step, std::uint64_t group) override;
  std::function<Result<GradientSum>()> BeginAccumulator(Step step, std::uint64_t group) override;
  Status SetScaleLevel(Step step, unsigned level) override;
  unsigned ScaleLevel(Step step) const override { return scale_levels_.Of(step); }
  void ReleaseStep(Step step) override;

  Status Apply(std::span<const Bytes> sums, double clip, double learning_rate, bool skip) override;
  bool AppliesOwn() const override;
  Result<std::vector<double>> OwnNorms(Step step, std::uint64_t group) override;
  Status ApplyOwn(double clip, double learning_rate, bool skip) override;
  bool HoldsPart(std::uint64_t part) const override { return parameters_.HoldsPart(part); }
  std::uint64_t MomentBytes(std::uint64_t part) const override {
    return parameters_.MomentBytes(part);
  }
  std::vector<checkpoint::NamedTensor> PartState(std::uint64_t part) const override {
    return parameters_.PartState(part);
  }
  Status TakeMoments(std::uint64_t part, const Bytes& moments) override {
    return parameters_.TakeMoments(part, moments);
  }
  Result<std::vector<Bytes>> BeginApply(std::span<const Bytes> sums, double clip,
                                        double learning_rate, bool skip,
                                        const Division& division) override;
  Status FinishApply(std::span<const Bytes> weights) override;
  Result<Bytes> Logits(Version version, const TokenBatch& tokens) override;
  Result<std::unique_ptr<Reading>> BeginReading(Version version) override;

 private:
  class TextReading;
  /// The inputs of the layers for a microbatch. `rows` and `input` are leaves.
  struct Pass {
    at::Tensor ids;                ///< [B, L] int64; undefined where the stage needs none
    at::Tensor ids_on_host;        ///< the same
    std::vector<at::Tensor> rows;  ///< [B, L, n] of Layout::tables
    at::Tensor fixed_in_basis;     ///< Subspace that turns, on stages that send: (F U)[ids]
    at::Tensor input;              ///< from the stage before; undefined on stage 0
    std::shared_ptr<const Documents> documents;  ///< null: each sequence is one
  };
  /// What the forward of a microbatch keeps for its backward.
  struct Graph {
    Version version;
    Pass pass;
    at::Tensor output;  ///< for the next stage; on the last stage, the loss
  };

  Result<const Weights*> FindWeights(Version version) const;
  /// Calls `body` where kernels may read the weights of that version, if it is held.
  Status WithWeights(Version version, const std::function<Status()>& body);
  bool exact() const { return options_.accumulation == api::Accumulation::kExact; }
  /// The exponents of a step's accumulators, one a parameter; none without kExact.
  std::vector<int> ExponentsOf(Step step) const;
  enum class Read { kInputs, kLabels };
  /// The first `length` columns of a batch, or as labels the `length` columns behind the first;
  /// int64 [B, length] on the host. A label that does not count is -1. Errors: kInvalidArgument
  /// (an id outside the vocabulary).
  Result<at::Tensor> TokenColumns(const TokenBatch& tokens, Read as, std::int64_t length) const;
  /// The documents of the first `length` columns of a batch; null where each row is one.
  Result<std::shared_ptr<const Documents>> DocumentsOf(const TokenBatch& tokens,
                                                       std::int64_t length) const;
  /// Errors: kInvalidArgument (a sequence too long for its rotary embedding).
  Status CheckLength(std::int64_t tokens) const;
  /// Errors: kFailedPrecondition (a part of the model), naming `what` needs all of it.
  Status CheckWhole(const char* what) const;
  Result<Pass> OpenPass(const Weights& weights, const TokenBatch& tokens, std::int64_t length,
                        const Bytes& input);
  /// The bodies of SubmitForward and SubmitBackward: `done` is called only where they are ok.
  /// Exceptions of libtorch pass through.
  Status Execute(const TaskKey& key, Version version, const TokenBatch& tokens, const Bytes& input,
                 bool keep_graph, const Done<ForwardResult>& done);
  Status Differentiate(const TaskKey& key, const Bytes& gradient, const Done<BackwardResult>& done);
  Result<Bytes> ComputeLogits(Version version, const TokenBatch& tokens);
  /// x behind the last layer of the stage. With `past`, one for each layer, as DecoderLayer; the
  /// stage has then no boundaries inside.
  at::Tensor RunLayers(const Weights& weights, const Pass& pass, std::span<PastTokens> past = {});
  /// RunLayers, or what Recompute::kFull makes of it.
  at::Tensor RunBody(const Weights& weights, const Pass& pass);
  at::Tensor RunLayer(std::size_t index, const Weights& weights, const at::Tensor& x,
                      const Documents* documents, PastTokens* past);
  /// What the head reads of the x behind the last layer.
  at::Tensor NormAtEnd(const Weights& weights, const at::Tensor& x) const;
  /// The logits of what NormAtEnd gives.
  at::Tensor LogitsOf(const Weights& weights, const at::Tensor& normed) const;
  /// The matrix of the head [V, D].
  at::Tensor HeadOf(const Weights& weights) const;
  at::Tensor EmbeddedTokens(const Weights& weights, const Pass& pass) const;
  /// The halves of the boundary before a decoder layer.
  at::Tensor SendAt(std::int64_t layer, const Weights& weights, const Pass& pass,
                    const at::Tensor& x) const;
  at::Tensor ReceiveAt(std::int64_t layer, const Weights& weights, const Pass& pass,
                       const at::Tensor& z) const;
  /// The fixed tensors of Subspace, with the basis of these weights.
  Subspace SubspaceOf(const Weights& weights) const;
  void PrepareSubspace(std::uint64_t seed);
  /// Where spans go; null where nothing is recorded: a device computes later than it is told to.
  Spans* spans() const { return device_.is_cpu() ? options_.spans : nullptr; }
  /// The same for what crosses boundaries; those of a segment are no boundaries of the stage.
  Spans* boundary_spans() const { return options_.part ? nullptr : spans(); }
  /// A span of the microbatch that is being computed, which has not begun.
  Span SpanOf(SpanKind kind, std::uint64_t layer = Span::kNone) const;
  /// Begins the span of encoding what leaves the stage; the function ends it.
  std::function<void()> BeginEncode() const;
  /// Has the spans of backwards recorded, once `x` has its gradient: it is the input of `layer`, or
  /// behind the last one the output.
  void NoteGradientOf(const at::Tensor& x, std::int64_t layer);
  /// When a version is dropped, the weights that its graphs refer to are overwritten.
  void DropGraphs();

  const StageOptions options_;
  const Layout layout_;
  const Ways ways_;
  const at::Device device_;
  Port* const port_;
  const std::unique_ptr<codec::Codec> activation_codec_, gradient_codec_;
  const std::unique_ptr<codec::Codec> loss_codec_;  ///< float32
  const bool lossy_;                                ///< whether crossing a boundary changes numbers
  PositionTables positions_;
  Subspace subspace_;  ///< as it was at the start of the job
  FixedInBasis fixed_in_basis_;
  ParameterStore parameters_;
  GradientStore gradients_;
  std::map<TaskKey, Graph> graphs_;
  ScaleLevels scale_levels_;
  TaskKey computing_;           // of spans
  Timepoint layer_began_ = {};  // its backward, of spans
};

/// To the device of the options. Errors: as Stage::Create.
Result<DecoderStage::Ways> OpenWays(const StageOptions& options);
/// As Stage::Create, of a stage with all of its state in memory. The ways may be those of another
/// stage with the same device and residency: one after the other uses what they keep. A state on
/// the host takes the blocks that are given as its own (ParameterStore).
Result<std::unique_ptr<Stage>> MakeDecoderStage(const StageOptions& options,
                                                DecoderStage::Ways ways);

}  // namespace swarm::model
