// A stage that is larger than its memory (pipeline.residency: Swap). Its state is in a tier, cut
// into segments (segments/plan.h), and each segment is computed by an ordinary Stage that lives
// while it is needed. So the arithmetic is that of Residency::kResident, to the bit where sums have
// no order.
//
// Tasks are collected until the executing thread has no other work (Work). Then up to SwapPlan's
// tasks of them pass the segments together: forward in order, each task keeping the input of every
// segment, in memory or in the tier; backward in reverse, where a segment first computes its
// forward again. While one segment computes, the next comes. Gradients leave to the tier segment by
// segment and wait there for Fold: of a task alone with exact sums; else those of the tasks that
// pass together as their sum, which is of use when all of them are folded. That is the rule; where
// it is not so, a part of them passes once more. Sums of steps are in the tier, too. Others see
// them as memory, which is mapped, and touch it only where they add something: the digests of its
// pieces and the norms come with it, read beside the next pass, and an update takes the stage's own
// sums from the tier.
//
// In Delayed the tier has two versions of the weights: an update writes to new extents, and those
// before go on under "previous.NAME" until the next one. Tasks that pass together read one version.
// So where there is memory for it, segments are updated one by one while those tasks pass
// (SubmitApply): on a thread of their own, and what they need comes and leaves meanwhile.
#pragma once

#include <algorithm>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/codec/codec.h"
#include "worker/model/collected.h"
#include "worker/model/decoder/decoder_stage.h"
#include "worker/model/exact_sums.h"
#include "worker/model/layout/layout.h"
#include "worker/model/readers.h"
#include "worker/model/segments/plan.h"
#include "worker/model/stage.h"
#include "worker/model/swap/parcel.h"
#include "worker/model/swap/segment.h"
#include "worker/model/swap/segment_store.h"
#include "worker/model/swap/step_sums.h"
#include "worker/model/swap/transit.h"
#include "worker/tier/space.h"

namespace swarm::model {

/// Requires Residency::kSwap and SwapOptions. Errors: as Stage::Create; kResourceExhausted (too
/// little memory), kUnavailable (no scratch file, or no such device), kFailedPrecondition (what
/// this stage does not do yet: divided updates, boundaries inside the stage or with parameters).
Result<std::unique_ptr<Stage>> MakeSwapStage(const StageOptions& options);

/// Has more than 25 methods: the functions of Stage, and the steps of a pass.
class SwapStage final : public Stage {
 public:
  /// `device` and `host`: ways to where segments are computed, and where they are updated.
  SwapStage(const StageOptions& options, Layout layout, SwapPlan plan,
            std::unique_ptr<tier::Tier> tier, DecoderStage::Ways device, DecoderStage::Ways host);

  const std::vector<ParameterSlot>& parameters() const override { return layout_.slots; }
  const std::vector<ParameterSlot>& frozen() const override { return layout_.frozen; }
  const std::vector<ParameterGroup>& groups() const override { return layout_.groups; }
  std::string DescribeMemory() const override;
  Version version() const override { return version_; }

  void InitRandom(std::uint64_t seed) override;
  Status Load(const checkpoint::TensorLookup& tensors, Version version, bool optimizer) override;
  Status Replace(const checkpoint::TensorLookup& weights) override;
  std::vector<checkpoint::NamedTensor> State() const override;

  void SubmitForward(const TaskKey& key, Version version, const TokenBatch& tokens,
                     const Bytes& input, bool keep_graph, Done<ForwardResult> done) override;
  void SubmitBackward(const TaskKey& key, const Bytes& gradient,
                      Done<BackwardResult> done) override;
  std::size_t tasks_at_once() const override { return std::max<std::size_t>(plan_.tasks, 2); }
  std::size_t tasks_together() const override { return plan_.tasks; }
  /// A segment of a pass, or of an update.
  bool Work() override;
  bool InPass() const override { return forward_pass_ != nullptr || backward_pass_ != nullptr; }
  void Abandon() override;
  Status Fold(const TaskKey& key) override;
  Status Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite) override;
  void Drop(const TaskKey& key) override;

  GradientSum Accumulator(Step step, std::uint64_t group) override;
  /// The result reads the sum, for digests and norms.
  std::function<Result<GradientSum>()> BeginAccumulator(Step step, std::uint64_t group) override;
  Status SetScaleLevel(Step step, unsigned level) override;
  unsigned ScaleLevel(Step step) const override { return scale_levels_.Of(step); }
  void ReleaseStep(Step step) override;
  Status Apply(std::span<const Bytes> sums, double clip, double learning_rate, bool skip) override;
  void SubmitApply(std::vector<Bytes> sums, double clip, double learning_rate, bool skip,
                   std::function<void(Status)> done) override;
  void Settle() override;

  /// Errors: kFailedPrecondition. Residency::kResident has these.
  Result<Bytes> Logits(Version version, const TokenBatch& tokens) override;
  Result<std::unique_ptr<Reading>> BeginReading(Version version) override;

  const SwapPlan& plan() const { return plan_; }
  /// The most bytes that were in memory at once: of segments, with gradients and moments, of what
  /// was on its way, and of kept inputs. Without graphs and sums.
  std::uint64_t peak_bytes() const { return gauge_.peak(); }

 private:
  using Purpose = SegmentStore::Purpose;

  struct Forwarding {
    TaskKey key;
    Version version;
    TokenBatch tokens;  ///< without ids
    std::vector<std::int32_t> ids;
    std::shared_ptr<Parcel> input;  ///< of the segment
    bool keep;
    Done<ForwardResult> done;
  };
  /// With which a task can pass once more.
  struct Payloads {
    Version version;
    TokenBatch tokens;  ///< without ids
    std::vector<std::int32_t> ids;
    Bytes input, gradient;  ///< as they came
  };
  /// What the forward of a task leaves for its backward.
  struct Kept {
    Payloads payloads;
    std::vector<std::shared_ptr<Parcel>> inputs;  ///< by segment
  };
  struct Passing {
    Backwarding task;  ///< its gradient is that of the stage's input when all segments are passed
    Kept kept;
    std::shared_ptr<Parcel> gradient;  ///< of the segment's output
  };
  /// Gradients of a segment, on their way to the tier.
  struct Leaving {
    Transit transit;
    std::shared_ptr<const void> held;
    /// Of a device: its gradients are read while another stage computes.
    std::unique_ptr<Stage> stage = nullptr;
    std::shared_ptr<const void> stage_held = nullptr;
    std::future<Status> read = {};  ///< on a thread of its own, which begins to write them
    Status Wait();
    ~Leaving() { (void)Wait(); }
  };
  /// Gradients that wait for Fold.
  struct Waiting {
    std::map<TaskKey, Payloads> tasks;
    std::set<TaskKey> folded;  ///< of them
    Contribution sum;          ///< of all tasks
    bool whole = false;        ///< there is a sum, of these tasks
    bool IsFolded() const { return folded.size() == tasks.size(); }
  };
  /// Tasks that read one version.
  struct ForwardPass {
    std::vector<Forwarding> tasks;
    std::size_t segment = 0;  ///< the next one
  };
  /// Tasks of one step that read one version.
  struct BackwardPass {
    std::vector<Passing> tasks;
    Step step;
    std::size_t segments = 0;               ///< to pass
    std::map<TaskKey, Contribution> alone;  ///< kExact
    const std::shared_ptr<Waiting> together = std::make_shared<Waiting>();
    Leaving leaving;
  };
  /// What an update of a segment needs, on its way.
  struct Updating {
    SegmentStore::Coming state;
    std::vector<Bytes> sums;  ///< by group of the segment
    Transit coming;
    std::shared_ptr<const void> held;
  };
  /// An update while tasks pass.
  struct UpdateBeside {
    std::vector<Bytes> sums;
    const std::vector<TierSum>* own;  ///< as of BeginUpdate
    double clip, learning_rate;
    std::function<void(Status)> done;
    std::size_t tensors;                   ///< of the store before
    std::vector<const Segment*> segments;  ///< those to update
    std::size_t at = 0;                    ///< of them: the one that is computed, or leaves
    std::shared_ptr<const void> held;
    std::future<Result<std::unique_ptr<Stage>>> computed;
    std::unique_ptr<Stage> stage;  ///< that leaves
    Transit leaving;               ///< waits, before the stage goes
  };

  bool exact() const { return options_.accumulation == api::Accumulation::kExact; }
  bool delayed() const { return options_.step_mode == api::StepMode::kDelayed; }
  /// docs/protocol.md, rule 1.
  Version ReadBy(Step step) const;
  /// Which weights of the store are a version's; none: it is not held.
  std::optional<SegmentStore::Weights> WeightsOf(Version version) const;
  bool Holds(Version version) const { return WeightsOf(version).has_value(); }
  /// The first segment that a backward computes: with adapters nothing of an embedding is trained.
  std::size_t first_backward() const { return segments_.front().slots.empty() ? 1 : 0; }
  /// Between tasks. On a device, the stage of the segment that comes is made as soon as its weights
  /// are on the host: they cross while others are computed with.
  void Prepare();
  /// Makes the segment's stage the one in memory for a pass, and begins to bring `next`'s weights.
  Result<Stage*> Enter(Version version, std::size_t segment, std::optional<std::size_t> next);
  /// Nothing of a pass is in memory.
  void Leave();
  /// Fills the stage's state by segments: `fill` makes one segment's.
  Status Fill(Version version, const std::function<Status(Stage&)>& fill);

  Result<Bytes> Recoded(const codec::Codec& from, const codec::Codec& to, const Bytes& payload,
                        const TokenBatch& tokens) const;
  /// What a task carries from a segment to the next one.
  Result<std::shared_ptr<Parcel>> Pack(Bytes bytes);
  /// Passes a segment: of the pass that goes on, or of one that begins. False: there are no tasks.
  bool PassOn();
  void BeginForwards();
  void PassForward();
  /// Begins a segment's forward of a task.
  std::future<Result<ForwardResult>> BeginForward(Stage& stage, Forwarding& task);
  /// Takes what came of it: the task answers, or is one that goes on.
  void EndForward(Forwarding task, Result<ForwardResult> result, bool last,
                  std::vector<Forwarding>* going_on);
  void BeginBackwards();
  void PassBackward();
  /// All segments are passed: gradients wait, and tasks are answered.
  void EndBackwards();
  /// Takes tasks out of the passes.
  template <typename Is>
  void DropPassing(Is is);
  /// Those that are next, of one step and one version.
  std::vector<Passing> TakeBackwards();
  /// Begins a segment's part of the backward of a task: gives the gradient of its input, and adds
  /// those of the weights to the accumulators of the segment's stage.
  std::future<Result<BackwardResult>> BeginBackward(Stage& stage, Passing& passing);
  /// The accumulators of a segment's stage begin to leave, when those before them have left.
  Status Dismiss(Stage& stage, std::size_t segment, Step step, Leaving* leaving,
                 Contribution* contribution);
  /// Answers a task whose gradients wait.
  void Answer(Passing passing, const Contribution& contribution);
  /// The sum of what is folded of `waiting` is added to the step's; the rest goes on waiting.
  Status AddFolded(Waiting* waiting);
  /// Makes the sum of tasks of one step once more.
  Status PassAgain(const std::map<TaskKey, Payloads>& tasks, Contribution* sum);
  /// Adds what is folded and not added yet.
  Status AddAllFolded(Step step);
  std::shared_ptr<Waiting> FindWaiting(const TaskKey& key) const;
  /// kExact: one for each slot.
  std::vector<int> ExponentsOf(Step step) const;
  /// Makes the next version from sums.
  Status Update(std::span<const Bytes> sums, double clip, double learning_rate);
  /// Begins to bring what the update of a segment needs. `own`: sums that are taken from the tier.
  Updating BeginUpdate(const Segment& segment, std::span<const Bytes> sums,
                       const std::vector<TierSum>* own);
  /// The segment's stage with the next version. Waits until what it needs has come.
  Result<std::unique_ptr<Stage>> Updated(const Segment& segment, Updating now, double clip,
                                         double learning_rate, unsigned level) const;
  // Of update_.
  /// Begins with the segment at `at`.
  void BeginNext();
  /// Goes on as far as nothing is waited for; or, if `waits`, one segment further.
  void GoOnUpdating(bool waits);
  Status GoOn();
  void End(Status status);
  void DropGraphs();

  const StageOptions options_;
  const Layout layout_;
  const SwapPlan plan_;
  const int contribution_bits_;
  const std::unique_ptr<codec::Codec> activation_codec_, gradient_codec_, plain_codec_;
  MemoryGauge gauge_;
  tier::Space space_;
  SegmentStore store_;
  const std::vector<Segment> segments_;
  Version version_;
  bool held_ = false;  ///< there are weights

  std::deque<std::shared_ptr<Parcel>> leaving_;  ///< to the tier
  std::deque<Forwarding> forwards_;
  std::deque<Backwarding> backwards_;
  std::map<TaskKey, Kept> kept_;
  std::map<TaskKey, std::shared_ptr<Waiting>> waiting_;
  StepSums sums_;
  ScaleLevels scale_levels_;

  Version entered_version_;  ///< of stage_ and loading_
  std::size_t entered_ = 0;  ///< the segment of stage_
  std::unique_ptr<Stage> stage_;
  std::shared_ptr<const void> stage_held_;
  std::size_t coming_ = 0;  ///< the segment of loading_
  std::optional<SegmentStore::Coming> loading_;
  std::unique_ptr<Stage> prepared_;            ///< of that segment, too; then loading_ has nothing
  std::unique_ptr<ForwardPass> forward_pass_;  ///< one of the two at most
  std::unique_ptr<BackwardPass> backward_pass_;
  Readers readers_;  ///< of what is in the tier
  std::optional<UpdateBeside> update_;
};

}  // namespace swarm::model
