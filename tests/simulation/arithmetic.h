// The job that is simulated: a "model" whose activations, gradients and weights are 64-bit numbers
// made by mixing, so that a wrong, lost, doubled or stale byte anywhere gives another number; and
// the same job as a plain loop, which is what every run must equal.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "tests/simulation/world.h"
#include "worker/protocol/commit.h"
#include "worker/protocol/coordinator/coordinator.h"

namespace swarm::simulation {

/// Elements of every group: enough that a reduce has more than one shard.
inline constexpr std::uint64_t kElements = 2;

struct Job {
  std::vector<std::uint64_t> replicas{1};
  std::uint64_t microbatches = 1;
  std::uint64_t steps = 4;
  bool delayed = false;
  bool tied_head = false;
  /// Sums depend on their order, as those of floats; else they are integer sums.
  bool order_sensitive = false;
  std::uint64_t checkpoint_interval = 0;
  bool checkpoints = false;
  std::uint64_t validation_interval = 0;
  std::uint64_t validation_microbatches = 0;
  double max_grad_norm = 0;
  /// Of integer sums: some contributions fit only when the step's scale has been lowered, some are
  /// not finite.
  bool overflows = false;
  bool skips = false;
  /// Parts of a stage's own group have holders (rule 31); each element of a sum is a part.
  bool divided = false;
  /// Replicas take steps of their own between those of the job (rule 32), so what a task gives
  /// depends on the replica that runs it and on what that ran before. Requires order_sensitive.
  bool local = false;
  /// Of the weights; the sums of step t are of fragment t mod fragments, and what a replica has moved
  /// of the others waits with it for their turn. More than one requires local.
  std::uint64_t fragments = 1;

  std::uint64_t stages() const { return replicas.size(); }
  bool operator==(const Job&) const = default;
};

/// The groups that the stage's tensors belong to, in order.
std::vector<protocol::GroupIndex> GroupsOf(const Job& job, protocol::StageIndex stage);

bool IsDivided(const Job& job, protocol::GroupIndex group);
/// The names of the parts of the stage's groups that are divided, in the order of their weights.
std::vector<protocol::PartName> PartsOf(const Job& job, protocol::StageIndex stage);

/// Weights of one version: a number for each part of a divided group, one for each other group. The
/// stage's own group is the first.
using Weights = std::vector<std::uint64_t>;
/// What a worker holds: the version's weights, and in Delayed mode those before; and the moments of
/// parts that it holds.
struct StageState {
  protocol::Version version;
  std::map<protocol::Version, Weights> weights;
  std::map<protocol::PartName, std::uint64_t> moments = {};
};
/// The same weights, and the moments that `some` has.
bool Agree(const StageState& some, const StageState& whole);
/// Without moments: a replica holds only some.
Digest DigestOf(const StageState& state);
StageState InitialState(const Job& job, protocol::StageIndex stage);
/// The next weights of a group that is not divided, or of a part, with these elements of the sum.
/// `moment`: of the part; null: of a group.
std::uint64_t Update(const protocol::CommitRecord& record, std::uint64_t level,
                     std::span<const Element> sum, std::uint64_t weight, std::uint64_t* moment);
/// The state gets the weights of the next version.
void Advance(const Job& job, Weights next, StageState* state);
/// The state after a commit with these sums (one for each of the stage's groups), read at that
/// scale level.
void ApplyCommit(const Job& job, protocol::StageIndex stage, const protocol::CommitRecord& record,
                 std::uint64_t level, const std::vector<std::vector<Element>>& sums,
                 StageState* state);

/// The version that step `step` reads.
protocol::Version VersionRead(const Job& job, protocol::Step step);

/// The ids of a microbatch.
Bytes MakeTokens(protocol::TaskKind kind, std::uint64_t step, std::uint64_t microbatch);
std::uint64_t EmbedTokens(const Bytes& tokens);  ///< x_0
std::uint64_t ForwardOf(std::uint64_t x, const Weights& weights, std::uint64_t stage);
double LossOf(std::uint64_t x, const Bytes& tokens);
std::uint64_t LossGradientOf(std::uint64_t x, const Bytes& tokens);
std::uint64_t InputGradientOf(std::uint64_t g, std::uint64_t x, const Weights& weights,
                              std::uint64_t stage);
/// The gradients of one microbatch by the weights, a sum of one microbatch for each group.
std::vector<std::vector<Element>> ContributionOf(std::uint64_t g, std::uint64_t x,
                                                 const Weights& weights, std::uint64_t stage,
                                                 const std::vector<protocol::GroupIndex>& groups,
                                                 std::uint64_t microbatch);
/// From which scale level on the contribution fits.
std::uint64_t LevelNeeded(const Job& job, protocol::Step step, std::uint64_t stage,
                          std::uint64_t microbatch);
/// Whether the contribution is finite; one that is not adds nothing but its count.
bool IsFinite(const Job& job, protocol::Step step, std::uint64_t stage, std::uint64_t microbatch);
/// What is added of a contribution's element, at that scale level.
Element Quantize(const Element& element, std::uint64_t level, bool finite);
/// into += from; by the order that the job's sums have.
void AddTo(const Job& job, const Element& from, Element* into);
Digest DigestOf(std::span<const Element> sum);
/// As a commit names it.
Digest DigestOf(const Job& job, protocol::GroupIndex group, std::span<const Element> sum);
/// `finite`: all contributions were.
protocol::TensorNorm NormOf(protocol::GroupIndex group, std::span<const Element> sum, bool finite);
protocol::TensorNorm NormOf(const protocol::PartName& part, const Element& sum, bool finite);
/// The counts of a sum that has every microbatch once (of each stage that has a part in it).
std::uint64_t CompleteCounts(const Job& job, protocol::GroupIndex group);
double LearningRate(protocol::Step step);

/// The undisturbed run, by plain loops.
class Reference {
 public:
  explicit Reference(const Job& job);

  struct StepResult {
    protocol::CommitRecord record;           // its k mean nothing
    std::vector<std::vector<Element>> sums;  // by group
  };
  const StepResult& step(protocol::Step step) const { return steps_.at(step.value); }
  const StageState& state(protocol::Version version, protocol::StageIndex stage) const {
    return states_.at(version.value).at(stage.value);
  }
  double ValidationLoss(protocol::Version version) const;

 private:
  void RunStep(std::uint64_t step);
  /// Of the step's sums of the stage: the least at which all that is summed with them fits.
  std::uint64_t LevelOf(protocol::Step step, std::uint64_t stage) const;

  const Job job_;
  std::vector<StepResult> steps_;
  std::vector<std::vector<StageState>> states_;  // by version, by stage
};

}  // namespace swarm::simulation
