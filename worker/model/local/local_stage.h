// A stage that takes steps of its own between the job's steps (training.stepMode: Local). The job's
// step is a round: its microbatches are claimed as in Sync, and the replica that computes some
// takes an inner step with them, with its own optimizer. What that step moved waits as gradients
// do, and is folded, summed and committed as one, a microbatch's share of it at a time. So a round
// counts each microbatch once, whoever dies; what was computed and not committed goes with the
// local weights, which begin anew from the job's after each round.
//
// With fragments, the weights of each group are cut into so many equal runs, and a round sums one
// of them alone. What a replica has moved of the others in a round that has been committed, it
// keeps until their turn comes.
//
// The state is that of the job: the outer weights and their velocity. Local weights and the moments
// of the inner optimizer stay with the replica. With Residency::kSwap the inner stage is swapped,
// and all other numbers are in mapped scratch files.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/model/collected.h"
#include "worker/model/local/numbers.h"
#include "worker/model/readers.h"
#include "worker/model/stage.h"

namespace swarm::model {

/// Requires StageOptions::local. Errors: as Stage::Create; kFailedPrecondition (what Local does not
/// do yet: tied heads of several stages, exact sums, divided updates, adapters, learned
/// boundaries).
Result<std::unique_ptr<Stage>> MakeLocalStage(const StageOptions& options);

class LocalStage final : public Stage {
 public:
  /// `inner` computes and takes the inner steps.
  LocalStage(const StageOptions& options, std::unique_ptr<Stage> inner);

  const std::vector<ParameterSlot>& parameters() const override { return inner_->parameters(); }
  const std::vector<ParameterSlot>& frozen() const override { return inner_->frozen(); }
  const std::vector<ParameterGroup>& groups() const override { return inner_->groups(); }
  std::uint64_t fragments() const override { return options_.local.fragments; }
  std::vector<ParameterGroup> SumGroups(Step step) const override;
  std::vector<ParameterSlot> SumSlots(Step step, std::uint64_t group) const override;
  std::string DescribeMemory() const override { return inner_->DescribeMemory(); }
  Version version() const override { return version_; }

  void InitRandom(std::uint64_t seed) override;
  Status Load(const checkpoint::TensorLookup& tensors, Version version, bool optimizer) override;
  /// The outer weights, "optimizer.velocity.NAME", and where rounds overlap, "previous.NAME".
  std::vector<checkpoint::NamedTensor> State() const override;

  /// With keep_graph, in the local weights; else in those of the version.
  void SubmitForward(const TaskKey& key, Version version, const TokenBatch& tokens,
                     const Bytes& input, bool keep_graph, Done<ForwardResult> done) override;
  /// Where an inner step has come since the forward, that is computed again. When so many of a
  /// round have come as an inner step takes, it is taken.
  void SubmitBackward(const TaskKey& key, const Bytes& gradient,
                      Done<BackwardResult> done) override;
  /// Where the inner stage is swapped, those of an inner step pass together. Else one: a forward
  /// before the step of another task would be computed in vain.
  std::size_t tasks_at_once() const override;
  bool Work() override;
  void Abandon() override;
  Status Fold(const TaskKey& key) override;
  Status Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite) override;
  void Drop(const TaskKey& key) override;

  /// Takes the round's last inner step with what is there.
  GradientSum Accumulator(Step step, std::uint64_t group) override;
  Status SetScaleLevel(Step step, unsigned level) override;
  unsigned ScaleLevel(Step) const override { return 0; }
  void ReleaseStep(Step step) override;
  /// The outer step. `clip` and `learning_rate` are those of a step of Sync, and not used: what
  /// inner steps moved is not clipped, and the outer rate does not change.
  Status Apply(std::span<const Bytes> sums, double clip, double learning_rate, bool skip) override;

  Result<Bytes> Logits(Version version, const TokenBatch& tokens) override;
  Result<std::unique_ptr<Reading>> BeginReading(Version version) override;

 private:
  /// Weights that the inner stage may have.
  enum class Weights { kNone, kLocal, kOuter, kBefore };
  /// What a task comes with, and what the inner stage calls it.
  struct Task {
    Version version;
    TokenBatch tokens;  ///< without ids
    std::vector<std::int32_t> ids;
    Bytes input;
    TaskKey inner;
    std::uint64_t weights = 0;  ///< with which its forward was computed: count_of_weights_
  };
  struct Forwarding {
    TaskKey key;
    Task task;
    bool keep;
    Done<ForwardResult> done;
  };
  /// The microbatches of an inner step.
  struct Batch {
    Step inner;                ///< of the inner stage: has their gradients until the step is taken
    std::size_t taken = 0;     ///< so many took part, also those that were dropped later
    std::set<TaskKey> tasks;   ///< of them, whose share is in no sum yet
    std::set<TaskKey> folded;  ///< of these
    Numbers moved;             ///< by the step, or the weights behind it; empty: not taken yet
  };

  std::string folder() const;
  /// Of a group in its flat order, the elements that a round sums.
  struct Run {
    std::uint64_t first, count;
    std::span<float> Of(std::span<float> group) const { return group.subspan(first, count); }
  };
  Run RunOf(Step round, std::uint64_t group) const;
  /// Of what waits in a batch, the part that belongs to `some` of its tasks.
  float ShareOf(const Batch& batch, std::size_t some) const;
  /// Makes all numbers of the state anew.
  Status Allocate();
  /// The weights of a version; none: they are not held.
  std::optional<Weights> Find(Version version) const;
  const Numbers& NumbersOf(Weights weights) const;
  /// The inner stage computes with these weights from now on; its moments stay.
  Status Use(Weights weights);
  /// Gives it these numbers as weights: of all parameters, or of those that a round sums.
  Status Replace(const Numbers& numbers, std::optional<Step> round = {});
  Status ReadInnerWeights(Numbers* to) const;
  /// Reads the tensors PREFIX + NAME.
  Status LoadNumbers(const checkpoint::TensorLookup& tensors, const std::string& prefix,
                     Numbers* to) const;

  Batch& OpenBatch(Step round);
  /// What the inner stage calls a task; with `keep`, one of the round's open batch.
  TaskKey NameInside(const TaskKey& key, bool keep);
  void RunForwards();
  void RunBackwards();
  /// The inner step of a round's open batch, if anything is in it.
  Status TakeStep(Step round);
  Status TakeAllSteps();
  /// Adds the shares of what is folded to the sum of the round.
  Status Settle(Step round, Batch* batch);
  std::shared_ptr<Batch> FindWaiting(const TaskKey& key) const;
  void Leave(const TaskKey& key);
  /// What the round and those before have moved of its fragment, in the order of SumSlots.
  Result<Bytes> TakeFragment(Step step, std::uint64_t group);
  /// Behind the commit of a round: the moves of its fragment are in the weights, and those of the
  /// others wait for their turn.
  void KeepOthers(Step step, bool skipped);
  /// Makes the outer step of a round, and the local weights of its fragment what they are behind
  /// it.
  void StepFragment(Step step, std::span<const Bytes> sums, bool skip);
  /// For writing: a sum that others have is left to them.
  Result<Numbers*> SumOf(Step step);
  /// Zeros, or anything.
  Result<Numbers> TakeSpare();
  void Forget();

  const StageOptions options_;
  const std::unique_ptr<Stage> inner_;
  Version version_;
  bool held_ = false;  ///< there are weights
  Numbers outer_, velocity_;
  Numbers before_;             ///< the outer weights of the version before
  bool holds_before_ = false;  ///< they are in before_
  Numbers local_;              ///< the outer weights less what this replica has moved since
  /// With several fragments: what it has moved in committed rounds, of parameters that no sum had
  /// since.
  Numbers kept_;
  bool local_is_outer_ = false;
  Weights used_ = Weights::kNone;       ///< the weights that the inner stage has
  std::uint64_t count_of_weights_ = 0;  ///< how often these have changed
  std::uint64_t batches_ = 0;           ///< so far: names them

  std::deque<Forwarding> forwards_;
  std::deque<Backwarding> backwards_;
  std::map<TaskKey, Task> tasks_;  ///< between forward and backward
  std::map<Step, std::shared_ptr<Batch>> open_;
  std::map<TaskKey, std::shared_ptr<Batch>> waiting_;
  std::map<Step, Numbers> sums_;
  std::vector<Numbers> spare_;
  Readers readers_;
};

}  // namespace swarm::model
