// Decided commits that are not applied yet, and the last applied ones (rules 12 and 17).
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "worker/protocol/replica/folds.h"

namespace swarm::protocol {

class CommitQueue {
 public:
  CommitQueue(Standing* standing, Folds* folds)
      : standing_(*standing),
        folds_(*folds),
        holds_(standing->options.whole),
        kept_from_(standing->version.value) {}

  Actions OnCommit(const Commit& commit);
  Actions OnGradientsFetched(Step step);
  /// The first commit of the queue is applied.
  void OnApplied();
  /// Drops the reduced gradients of steps for which there is no room (ReplicaOptions).
  void ReleaseOldest(Actions& actions) { Release(OldestKept(), actions); }
  /// The reduced gradients of this step, and of all that were applied since, are here.
  Step kept_from() const { return kept_from_; }
  /// Begins the next commit, if its gradients are here, and fetches those of later commits.
  void Advance(Actions& actions);
  /// Adds the decided commits, applied or not, to the answer for a new trainer.
  void Describe(Holding* holding) const;
  /// A commit is being applied: the state is between two versions.
  bool is_applying() const { return applying_; }

 private:
  /// There is room for the reduced gradients of this step and later ones.
  Step OldestKept() const;
  void Release(Step below, Actions& actions);
  /// Fetches several at a time, so that round trips do not hold up a worker that catches up.
  void FetchWhatIsNotHeld(Actions& actions);
  void ApplyIfReady(Actions& actions);

  Standing& standing_;
  Folds& folds_;
  std::deque<CommitRecord> commits_;  // decided, not yet applied; ordered by step
  std::map<Step, bool> fetches_;      // of queued commits; true: here
  std::optional<CommitRecord> last_applied_;
  std::deque<CommitRecord> past_;  // applied before that
  bool applying_ = false;
  bool holds_;              // Holding::holds
  bool will_hold_ = false;  // when what is being applied is
  Step kept_from_;
};

}  // namespace swarm::protocol
