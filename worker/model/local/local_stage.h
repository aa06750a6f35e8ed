// A stage that takes steps of its own between the job's steps (training.stepMode: Local). The job's
// step is a round: its microbatches are claimed as in Sync, and each makes the replica that
// computes it take an inner step with its own optimizer. What that step moved waits as a gradient
// does, and is folded, summed and committed as one. So a round counts each microbatch once, whoever
// dies; what was computed and not committed goes with the local weights, which begin anew from the
// job's after each round.
//
// The state is that of the job: the outer weights and their velocity. Local weights and the moments
// of the inner optimizer stay with the replica.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/model/readers.h"
#include "worker/model/stage.h"

namespace swarm::model {

/// Requires StageOptions::local. Errors: as Stage::Create; kFailedPrecondition (what Local does not
/// do yet: tied heads of several stages, exact sums, divided updates, adapters, learned boundaries,
/// Swap).
Result<std::unique_ptr<Stage>> MakeLocalStage(const StageOptions& options);

class LocalStage final : public Stage {
 public:
  /// `inner` computes and takes the inner steps.
  LocalStage(const StageOptions& options, std::unique_ptr<Stage> inner);

  const std::vector<ParameterSlot>& parameters() const override { return inner_->parameters(); }
  const std::vector<ParameterSlot>& frozen() const override { return inner_->frozen(); }
  const std::vector<ParameterGroup>& groups() const override { return inner_->groups(); }
  Version version() const override { return version_; }

  void InitRandom(std::uint64_t seed) override;
  Status Load(const checkpoint::TensorLookup& tensors, Version version, bool optimizer) override;
  /// The outer weights, "optimizer.velocity.NAME", and where rounds overlap, "previous.NAME".
  std::vector<checkpoint::NamedTensor> State() const override;

  /// With keep_graph, in the local weights; else in those of the version.
  void SubmitForward(const TaskKey& key, Version version, const TokenBatch& tokens,
                     const Bytes& input, bool keep_graph, Done<ForwardResult> done) override;
  /// An inner step follows. If one has come since the forward, the forward is computed again.
  void SubmitBackward(const TaskKey& key, const Bytes& gradient,
                      Done<BackwardResult> done) override;
  Status Fold(const TaskKey& key) override;
  Status Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite) override;
  void Drop(const TaskKey& key) override;

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
  /// Numbers of all parameters, by group.
  using Flat = std::vector<std::vector<float>>;
  struct Task {
    TaskKey inner;      ///< of its graph
    TokenBatch tokens;  ///< without ids
    std::vector<std::int32_t> ids;
    Bytes input;
  };
  TaskKey NextInner(const TaskKey& key);
  Flat Zeros() const;
  Flat InnerWeights() const;
  /// The outer weights of a version; null: they are not held.
  const Flat* Find(Version version) const;
  /// The inner stage computes with these weights from now on; its moments stay.
  Status Use(const Flat& weights);
  /// Reads the tensors PREFIX + NAME.
  Result<Flat> LoadFlat(const checkpoint::TensorLookup& tensors, const std::string& prefix) const;
  /// The waiting gradients of `inner` make a step; gives what it moved.
  Result<Flat> StepInner(const TaskKey& inner);
  Result<BackwardResult> RunBackward(const TaskKey& key, const Bytes& gradient);
  Flat& SumOf(Step step);
  void Forget();

  const StageOptions options_;
  const std::unique_ptr<Stage> inner_;
  Version version_;
  bool held_ = false;  ///< there are weights
  Flat outer_, velocity_;
  Flat before_;                    ///< the outer weights of the version before; empty: not held
  Flat local_;                     ///< the outer weights less what this replica has moved since
  const Flat* used_ = nullptr;     ///< the weights that the inner stage has
  std::uint64_t inner_tasks_ = 0;  ///< so far: names them
  std::map<TaskKey, Task> tasks_;  ///< between forward and backward
  std::map<TaskKey, Flat> waiting_;
  std::map<Step, Flat> sums_;
  Readers readers_;
};

}  // namespace swarm::model
