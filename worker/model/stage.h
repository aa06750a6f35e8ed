// One stage of the model on one device: its weights, its graphs in flight, its gradient
// accumulators and its optimizer. The only way to libtorch: this header has plain bytes and
// numbers.
//
// Used by the stage worker (any slice) and by the single-process reference (the slice that is the
// whole model), so that both compute with the same code. Not thread-safe: one thread executes it.
//
// Gradients: Backward yields fresh gradients that wait under their key; Fold adds them to the
// accumulator of their step, once; Drop forgets them (docs/protocol.md, rule 6). Accumulators are
// sums over microbatches of the gradient of (loss of the microbatch) / M: floats, or with
// Accumulation::kExact integers, whose sum has the same bits in every order (optim/fixed_point.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/spans.h"
#include "base/status.h"
#include "worker/checkpoint/tensor.h"
#include "worker/model/layout/parameters.h"
#include "worker/model/layout/slice.h"
#include "worker/protocol/ids.h"

namespace swarm::device {
class Device;
}

namespace swarm::model {

using protocol::Step;
using protocol::TaskKey;
using protocol::Version;

/// What a stage with Residency::kSwap may use (worker/model/swap/swap_stage.h).
struct SwapOptions {
  std::uint64_t memory = 0;      ///< bytes, for what is in use of its state and gradients
  std::string scratch;           ///< a folder; empty: the tier is memory
  std::uint64_t tasks = 1;       ///< that pass a segment together, at most
  std::uint64_t task_bytes = 0;  ///< of one task at a boundary
};

/// What a stage with StepMode::kLocal does (worker/model/local/local_stage.h).
struct LocalOptions {
  std::uint64_t inner_steps = 0;   ///< of a replica in a round; 0: there are none
  std::uint64_t microbatches = 1;  ///< of an inner step
  double outer_learning_rate = 1;
  double outer_momentum = 0;
  double max_grad_norm = 0;     ///< of inner steps; 0: no clipping
  bool overlaps = false;        ///< a round goes on when the one before is applied
  std::uint64_t fragments = 1;  ///< of the weights, of which rounds sum one after the other
  /// Sums are means of local weights, not of what these moved. Requires one inner step, an outer
  /// rate of 1, no momentum, overlap or fragments. One replica then takes the steps of Sync, to the
  /// bit.
  bool sums_weights = false;
  std::function<double(Version)> learning_rate = nullptr;  ///< of inner steps from a version on
};

struct StageOptions {
  api::DecoderConfig config;
  std::uint64_t stage = 0;
  std::uint64_t stage_count = 1;
  std::uint64_t microbatches = 1;  ///< M: each microbatch's gradient is weighted 1/M
  api::Precision precision = api::Precision::kFP32;
  double z_loss = 0;
  api::StepMode step_mode = api::StepMode::kSync;  ///< Delayed keeps two parameter versions
  api::Accumulation accumulation = api::Accumulation::kFloat;
  api::Recompute recompute = api::Recompute::kNone;
  api::Boundary boundary;  ///< without layers: the cuts into stage_count
  api::Lora lora;
  std::uint64_t seed = 0;  ///< of the job: determines the fixed tensors of Subspace
  api::Optimizer optimizer;
  /// The parameters of groups()[0] are parts that have holders (docs/protocol.md, rule 31): the
  /// stage has the moments of some of them, and State is without them.
  bool divided = false;
  int threads = 1;             ///< compute threads of this process
  std::string device = "cpu";  ///< or "cuda:N"
  /// Where masters and moments are, and the update runs. Resident and Offload are the same on the
  /// CPU.
  api::Residency residency = api::Residency::kResident;
  SwapOptions swap = {};
  LocalOptions local = {};
  /// Only this part of the stage, as ComputePartLayout says. Its boundaries carry float32.
  std::optional<Slice> part = {};
  /// Whether BackwardResult::gradients is wanted (docs/protocol.md, rule 33). Requires
  /// Accumulation::kExact, and not Residency::kSwap.
  bool audited = false;
  /// Whether Apply and the optimizer's state are wanted. If not, there are no moments.
  bool updates = true;
  /// How bytes reach the device; null: as `device` needs. Tests put one here that is late.
  std::shared_ptr<device::Device> streams = nullptr;
  /// Gets what a stage on the CPU does with a microbatch, layer by layer; outlives it. Null: there
  /// is none.
  Spans* spans = nullptr;
};

/// Tokens of a microbatch: `sequences` rows of tokens_per_sequence tokens (inputs and labels: row i
/// predicts ids[1..] from ids[..n-1]). Each is written as worker/token.h says: as an id; or also
/// with the marks of one that is no label (a prompt, in supervised fine-tuning), and of one behind
/// which nothing sees what is before it.
struct TokenBatch {
  std::uint32_t sequences = 0;
  std::uint32_t tokens_per_sequence = 0;
  std::span<const std::int32_t> ids;
};

struct ForwardResult {
  Bytes boundary;  ///< the encoding of x_{s+1} or of its coefficients; empty on the last stage
  /// Last stage only: nats of the labels that count, divided by the number of all labels. So it is
  /// a function of the microbatch alone, and sums over microbatches stay right; the mean over the
  /// labels that count is this, divided by their part of a step's labels.
  double loss = 0;
};

struct BackwardResult {
  Bytes gradient;    ///< the encoding of g_s; empty on stage 0
  bool fits = true;  ///< whether the range of the waiting gradients allows Fold to take them;
                     ///< always with float accumulation
  std::uint64_t gradients = 0;  ///< with StageOptions::audited, a digest of the waiting gradients:
                                ///< equal on stages of one numeric class that computed the same
};

/// Takes what a stage computes when it is there: on the CPU before the call that asks for it
/// returns, on a device later, on a thread of the device; of a stage that collects tasks, during
/// Work.
template <typename T>
using Done = std::function<void(Result<T>)>;

/// A stage's sum of a step, in one group's flat order, or that of the part which it is of
/// (Stage::SumSlots).
struct GradientSum {
  Bytes elements;  ///< of `type`; owned, and never written again
  checkpoint::ElementType type = checkpoint::ElementType::kF32;  ///< kI64 with Accumulation::kExact
  /// kExact only. Of the group's tensors, in the order of parameters(): an element q stands for
  /// q 2^-exponent.
  std::vector<int> exponents;
  /// kExact only: whether all contributions were finite. One that is not adds nothing.
  bool finite = true;
  /// What a device has computed of the elements beside bringing them; both empty: nothing. The
  /// digests of their pieces of checkpoint::kPieceBytes, without one that is not full, and of the
  /// group's tensors, in their order, optim::SquaredNorm.
  std::vector<Digest> piece_digests = {};
  std::vector<double> squared_norms = {};
};

/// How a stage that is divided applies a step. A part is a parameter of groups()[0], numbered in
/// the order of parameters().
struct Division {
  std::vector<bool> own;  ///< by part: this worker updates it, and has its moments from now on
  /// By part, kExact only: of the largest element of the whole sum (optim::MagnitudeBits).
  std::vector<std::uint64_t> magnitude_bits;
};

/// A text that a stage reads token by token. Used by the thread that executes the stage, which must
/// outlive it.
class Reading {
 public:
  virtual ~Reading() = default;
  /// Reads on: at least one token. The logits [vocab] in float32 of the one behind them. Errors: as
  /// Stage::Logits; the reading is then of no use.
  virtual Result<Bytes> Read(std::span<const std::int32_t> ids) = 0;
};

class Stage {
 public:
  /// Errors: kInvalidArgument (a model that cannot be cut so: more stages than layers, heads that
  /// do not divide), kUnavailable (no such device).
  static Result<std::unique_ptr<Stage>> Create(const StageOptions& options);
  virtual ~Stage() = default;

  /// What is trained.
  virtual const std::vector<ParameterSlot>& parameters() const = 0;
  /// What is part of the state, and never changes.
  virtual const std::vector<ParameterSlot>& frozen() const = 0;
  virtual const std::vector<ParameterGroup>& groups() const = 0;

  // Replicas that take steps of their own may sum one fragment of the weights after the other.

  /// The sums of step t are of fragment t mod fragments(); those of others, of all parameters.
  virtual std::uint64_t fragments() const { return 1; }
  /// The groups, with as many elements as the step's sums have.
  virtual std::vector<ParameterGroup> SumGroups(Step) const { return groups(); }
  /// The parameters that a step's sum of a group is of, in their order, with their offsets in it.
  virtual std::vector<ParameterSlot> SumSlots(Step step, std::uint64_t group) const;

  /// For the log: how the state comes into memory; empty where all of it is there.
  virtual std::string DescribeMemory() const { return {}; }

  /// The newest version held.
  virtual Version version() const = 0;

  /// Fills the weights from the seed; the value of a tensor depends on (seed, name) alone, not on
  /// the cut. Version 0, empty optimizer state. Requires the seed of the options where the boundary
  /// is Subspace.
  virtual void InitRandom(std::uint64_t seed) = 0;
  /// Takes weights (and, with `optimizer`, optimizer state, and in Delayed mode from version 1 on
  /// the previous version's weights) under the names that Snapshot gives. Any floating-point type
  /// will do. Errors: kNotFound, kInvalidArgument (shape or type), naming the tensor; the stage is
  /// then unusable until a load succeeds.
  virtual Status Load(const checkpoint::TensorLookup& tensors, Version version, bool optimizer) = 0;
  /// Gives the newest version other weights: those that `weights` finds, of any floating-point
  /// type; kNotFound leaves a tensor as it is. The optimizer's state stays, and graphs go. Blocks
  /// as Apply does. Errors: kInvalidArgument (shape or type; the stage is then unusable until a
  /// load succeeds), kFailedPrecondition (no weights, or a stage that cannot: where steps overlap,
  /// with exact sums, divided).
  virtual Status Replace(const checkpoint::TensorLookup& weights);
  /// Weights, optimizer state, and previous version: "NAME", "optimizer.FIELD.NAME" (exp_avg and
  /// exp_avg_sq in float32, step as an int64 scalar; what Muon steps has no exp_avg_sq),
  /// "previous.NAME". Sorted by name. With
  /// Accumulation::kExact also the exponents that belong to the versions, int64 scalars:
  /// "optimizer.scale.NAME" and, beside "previous.NAME", "optimizer.previous_scale.NAME". A load
  /// that does not find them takes the ones a job starts with. Of what is frozen "NAME" alone.
  ///
  /// In place, not a copy; what is on a device is elsewhere (checkpoint/tensor.h). Any thread may
  /// read the data, beside Forward and Backward; InitRandom, Load and Apply block until the last of
  /// the returned tensors is gone. So hold them no longer than it takes to read them, and never on
  /// the thread that executes the stage. The stage must outlive them.
  virtual std::vector<checkpoint::NamedTensor> State() const = 0;
  /// The state as it is now, which stays.
  std::vector<checkpoint::NamedTensor> Snapshot() const;
  /// The digest of the state, as checkpoint::CutState computes it.
  Digest StateDigest() const;

  /// Executes the stage's layers, and the boundaries between them. `input` is the encoding of x_s,
  /// or of its coefficients (ignored by stage 0). With keep_graph, the graph waits under `key` for
  /// Backward. Does not wait for the device. Errors, all but those of a device that fails known at
  /// once: kNotFound (version not held), kInvalidArgument (sizes, token ids), kDataLoss (an
  /// encoding that cannot be read), kAlreadyExists (graph or gradients wait under `key`).
  virtual void SubmitForward(const TaskKey& key, Version version, const TokenBatch& tokens,
                             const Bytes& input, bool keep_graph, Done<ForwardResult> done) = 0;
  /// Consumes the graph of `key`; `gradient` is the encoding of g_{s+1} (ignored by the last
  /// stage). The parameters' gradients wait under `key`. Does not wait for the device, and may be
  /// called before the forward's result is there. Errors, known as those of SubmitForward:
  /// kNotFound (no graph), kDataLoss (an encoding that cannot be read: the graph stays, for another
  /// attempt).
  virtual void SubmitBackward(const TaskKey& key, const Bytes& gradient,
                              Done<BackwardResult> done) = 0;
  /// The same, for callers that have nothing else to do: they wait for the result. Backward gives
  /// the encoding of g_s.
  Result<ForwardResult> Forward(const TaskKey& key, Version version, const TokenBatch& tokens,
                                const Bytes& input, bool keep_graph);
  Result<Bytes> Backward(const TaskKey& key, const Bytes& gradient);
  /// Tasks that the stage wants to have at once: two, so that a device has work while the host
  /// looks for more; or those that it collects, and computes in Work.
  virtual std::size_t tasks_at_once() const { return 2; }
  /// Those of them that it computes together.
  virtual std::size_t tasks_together() const { return 1; }
  /// Computes tasks that were submitted and not computed yet, some of them if not all. The thread
  /// that executes the stage calls it, again and again, when it has no other task for the stage.
  /// Returns whether there was anything to do.
  virtual bool Work() { return false; }
  /// Whether Work has computed a part of what some tasks need, and goes on with these.
  virtual bool InPass() const { return false; }
  /// Forgets the tasks that Work has not computed; their `done` are never called.
  virtual void Abandon() {}
  /// Adds the waiting gradients of `key` to the accumulator of key.step, all of them or, on an
  /// error, none. Errors: kNotFound; kOutOfRange (kExact only: an element is beyond the bound at
  /// the step's scale level, the message names the tensor; the gradients go on waiting).
  virtual Status Fold(const TaskKey& key) = 0;
  /// Adds another replica's sum of `step` and `group` (elements and `finite` of its Accumulator, at
  /// the same scale level). Errors: kInvalidArgument (another size).
  virtual Status Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite) = 0;
  /// Forgets graph and gradients of `key`, if any.
  virtual void Drop(const TaskKey& key) = 0;

  /// The accumulator of (step, group) on the host; zeros where nothing was folded. A result does
  /// not change: a later fold writes to a copy. Requires, with kExact, that the version which the
  /// step reads is held.
  virtual GradientSum Accumulator(Step step, std::uint64_t group) = 0;
  /// The same, as it is now, for another thread: that calls the result once, and waits there for
  /// the device. The stage must outlive it. Errors: those of the device.
  virtual std::function<Result<GradientSum>()> BeginAccumulator(Step step, std::uint64_t group);
  /// Begins the step's accumulators anew, at a scale level: exponents lowered by 16 bits a level,
  /// so that contributions which were out of range fit. Waiting gradients stay. The level holds
  /// until ReleaseStep. When the step is applied, it must be the same on all workers that share a
  /// group of this stage. Errors: kInvalidArgument (above optim::kScaleLevelMax, where everything
  /// fits, or above 0 without kExact).
  virtual Status SetScaleLevel(Step step, unsigned level) = 0;
  /// 0 until it is set.
  virtual unsigned ScaleLevel(Step step) const = 0;
  /// Frees the accumulator of `step` and drops the gradients of that step that still wait.
  virtual void ReleaseStep(Step step) = 0;

  /// One optimizer update with the reduced sums (one for each of SumGroups(v), of the type
  /// that Accumulator gives) of step v: version v becomes v + 1. With `skip` the weights stay and
  /// the version advances; the sums are ignored. When a version is dropped, so are the graphs
  /// recorded with it (Backward: kNotFound). Errors: kInvalidArgument (sums of other groups),
  /// kFailedPrecondition (no weights yet).
  virtual Status Apply(std::span<const Bytes> sums, double clip, double learning_rate,
                       bool skip) = 0;
  /// The same, and tasks that read the version before may be computed meanwhile, if the stage can
  /// do that. `done` is called once, by this or later by Work, Settle or another update. Until then
  /// the version stays, and the one before it is not held any more.
  virtual void SubmitApply(std::vector<Bytes> sums, double clip, double learning_rate, bool skip,
                           std::function<void(Status)> done) {
    done(Apply(sums, clip, learning_rate, skip));
  }
  /// Ends an update that goes on.
  virtual void Settle() {}

  // Where nothing is added to a stage's own sums, they can stay where they are.

  /// Whether the two functions below work: sums, masters and moments are on one device, and the
  /// update is computed there from floats.
  virtual bool AppliesOwn() const { return false; }
  /// The squared norms (optim::SquaredNorm, to the bit) of the parts of the accumulator of (step,
  /// group): of the group's parameters, in the order of parameters(). Waits for the device. Errors:
  /// those of the device.
  virtual Result<std::vector<double>> OwnNorms(Step step, std::uint64_t group);
  /// Apply with the stage's own accumulators of the step. Errors: as Apply.
  virtual Status ApplyOwn(double clip, double learning_rate, bool skip);

  // Of a stage that is divided. All parts are held after InitRandom, and after a Load that finds
  // their moments. A stage that cannot be divided does not have these functions.

  /// Whether the moments of the part are here.
  virtual bool HoldsPart(std::uint64_t part) const;
  /// Of its moments, here or not. From any thread.
  virtual std::uint64_t MomentBytes(std::uint64_t part) const;
  /// The weights of the newest version; and if the moments are here, those: as State names them,
  /// and with its contract.
  virtual std::vector<checkpoint::NamedTensor> PartState(std::uint64_t part) const;
  /// Takes the moments of the version that is held, one field after the other in the order of
  /// PartState. Errors: kInvalidArgument (another size).
  virtual Status TakeMoments(std::uint64_t part, const Bytes& moments);
  /// The first half of Apply: updates the own parts and the groups that are not divided. Of
  /// sums[0], only the own parts are read. Until the second half the newest version is not held,
  /// unless there are two. Returns the new weights of the own parts, in copies (by part; empty for
  /// others', and all with `skip`). Errors: as Apply.
  virtual Result<std::vector<Bytes>> BeginApply(std::span<const Bytes> sums, double clip,
                                                double learning_rate, bool skip,
                                                const Division& division);
  /// The second half: takes the weights of the other parts (by part; empty for own ones, and all
  /// with `skip`), and forgets their moments. Errors: kInvalidArgument (another size).
  virtual Status FinishApply(std::span<const Bytes> weights);

  /// Logits [sequences, tokens, vocab] in float32 of a stage that is the whole model; `tokens` has
  /// no labels here. Errors: kFailedPrecondition on a part of a model, else as Forward.
  virtual Result<Bytes> Logits(Version version, const TokenBatch& tokens) = 0;
  /// Begins a text, with the version as it is until the next change of the weights. Keeps keys and
  /// values of what was read, so that a token costs one row of every product; a model with
  /// boundaries inside reads its text anew for every token. Errors: as Logits.
  virtual Result<std::unique_ptr<Reading>> BeginReading(Version version) = 0;
};

}  // namespace swarm::model
