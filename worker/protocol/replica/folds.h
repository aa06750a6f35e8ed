// The folds of a replica in each open step, and the uses of the sums: they are frozen for a reduce,
// thawed, voided, handed over, adopted (rules 6, 8, 9, 11, 16).
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "worker/protocol/replica/action.h"
#include "worker/protocol/replica/standing.h"

namespace swarm::protocol {

/// The reduce that a group's sums are frozen for, and its result.
struct FrozenGroup {
  std::optional<Reduce> reduce;
  std::optional<Digest> digest;
};

struct FoldState {
  std::map<Microbatch, Attempt> latest;  ///< highest folding attempt that was accepted or closed
  std::map<Microbatch, Contribution> folded;
  std::map<GroupIndex, FrozenGroup> groups;
  std::map<WorkerId, std::vector<Contribution>> parcels;  ///< held, not adopted
  Attempt floor;                                          ///< folding attempts below are closed
  std::uint64_t level = 0;
  bool handed_over = false;

  bool IsFrozen() const;
  /// The folding attempt of the microbatch, or a later one, was accepted or closed.
  bool Knows(Microbatch microbatch, const Attempt& attempt) const;
};

class Folds {
 public:
  explicit Folds(Standing* standing) : standing_(*standing) {}

  const FoldState* Find(Step step) const;
  FoldState& At(Step step) { return steps_[step]; }
  bool IsFrozen(Step step) const;
  /// Why a folding attempt may not be accepted; empty if it may.
  std::string_view WhyRefuse(const TaskKey& key) const;
  /// The attempt may fold now.
  bool MayFold(const TaskKey& key) const;
  /// Whether the attempt, or a later one of its microbatch, was closed. It may be of a task that
  /// does not fold; what is lost of such a task is asked for again.
  bool IsClosed(const TaskKey& key) const;
  /// Closes the attempt and all lower ones: they must not fold any more.
  void Close(const TaskKey& key);
  bool HasFolded(const TaskKey& key) const;
  ClaimSet FoldSet(Step step) const;

  Actions OnReduce(const Reduce& reduce);
  Actions OnGroupReduced(Step step, GroupIndex index, Attempt k, const Digest& digest,
                         std::vector<TensorNorm> norms, std::vector<PartDigest> parts);
  /// Forgets the folds. Requires that the step is not committed.
  void Void(const protocol::Void& message, Actions& actions);
  /// False if nothing of the step is frozen.
  bool Thaw(Step step);
  /// Gives the step's sums away. Requires that the step is neither committed nor frozen.
  void HandOver(const protocol::HandOver& message, Actions& actions);
  Actions OnParcel(const WorkerId& donor, Step step, Generation generation, std::uint64_t level,
                   std::vector<Contribution> contributions);
  /// Takes over the donor's sums, as the roster orders. Returns the contributions that are new.
  std::vector<Contribution> Adopt(const Adoption& adoption, Actions& actions);
  /// Drops parcels that the earlier trainer asked for, and describes all steps for the new one.
  std::vector<HeldStep> Describe(Actions& actions);
  /// The worker holds the sums that the record names.
  bool Holds(const CommitRecord& record);
  /// It took part in the record's sums of its groups that have holders. It may lack those of other
  /// groups: if it came when they were made.
  bool HoldsParts(const CommitRecord& record);
  /// The step is committed.
  void Forget(Step step, Actions& actions);
  /// Starts reduces that waited for a version that is here now.
  Actions OnVersion();

 private:
  /// The sum that a record names; where the group has holders, of this worker's parts.
  bool HoldsSum(Step step, const GroupResult& result);

  Standing& standing_;
  std::map<Step, FoldState> steps_;
  std::map<std::pair<Step, GroupIndex>, Reduce> early_reduces_;  // of versions not reached yet
};

}  // namespace swarm::protocol
