// The decisions of a stage worker: which frames it accepts, when it runs, folds, freezes, reduces
// and applies, what it retains, and how it answers a trainer that repairs or takes over. The state
// machine of one replica (docs/protocol.md, rules 3, 5 to 17, 19).
//
// Pure: events in, actions out. The shell (worker/stage) carries the actions out in the order
// given, holds the payloads under their TaskKey, and reports their completion. Not thread-safe.
#pragma once

#include <vector>

#include "worker/protocol/replica/commit_queue.h"
#include "worker/protocol/replica/copies.h"
#include "worker/protocol/replica/tasks.h"

namespace swarm::protocol {

/// More than 25 methods: one for each event. The parts decide.
class Replica {
 public:
  explicit Replica(ReplicaOptions options);
  Replica(const Replica&) = delete;  // the parts refer to each other
  Replica& operator=(const Replica&) = delete;

  /// Whatever the trainer says, whichever of the functions below it is for. Other messages are
  /// not for a replica: nothing happens.
  Actions OnControl(const Message& message);

  Actions OnRoster(const Roster& roster);
  /// Refused if it does not follow the roster that this replica knows.
  Actions OnRosterChange(const RosterChange& change);

  /// `bytes`: of the payload, which counts while the frame waits.
  Actions OnForward(const WorkerId& from, const Forward& frame, std::uint64_t bytes = 0) {
    return tasks_.OnForward(from, frame, bytes);
  }
  Actions OnBackward(const WorkerId& from, const Backward& frame, std::uint64_t bytes = 0) {
    return tasks_.OnBackward(from, frame, bytes);
  }
  /// A commit has overtaken the task: the weights that it reads are gone. Closes it, if it is open:
  /// evaluations are, since a commit closes the tasks of its step alone.
  Actions OnForwardGone(const TaskKey& key) { return tasks_.OnForwardGone(key); }
  /// `loss` counts on the last stage only. `digests`: where the job has audits.
  Actions OnForwardDone(const TaskKey& key, double loss, const Cost& cost,
                        const TaskDigests& digests = {}) {
    return tasks_.OnForwardDone(key, loss, cost, digests);
  }
  /// `fits`: the gradients fit the scale level that the step has at this worker (always, with float
  /// accumulation). `digests`: where the job has audits; the input is the gradient that came.
  Actions OnBackwardDone(const TaskKey& key, const Cost& cost, bool fits = true,
                         const TaskDigests& digests = {}) {
    return tasks_.OnBackwardDone(key, cost, fits, digests);
  }

  Actions OnResend(const Resend& resend) { return tasks_.OnResend(resend); }
  Actions OnRedirect(const Redirect& redirect) { return tasks_.OnRedirect(redirect); }
  Actions OnRevoke(const Revoke& revoke) { return tasks_.OnRevoke(revoke); }
  Actions OnVoid(const Void& message);
  Actions OnThaw(const Thaw& thaw);
  Actions OnRollback(const Rollback& rollback);
  Actions OnTakeover(const Takeover& takeover);

  Actions OnHandOver(const HandOver& message);
  /// All pieces of the donor's parcel are here.
  Actions OnParcel(const WorkerId& donor, Step step, Generation generation, std::uint64_t level,
                   std::vector<Contribution> contributions) {
    return folds_.OnParcel(donor, step, generation, level, std::move(contributions));
  }

  Actions OnReduce(const Reduce& reduce) { return folds_.OnReduce(reduce); }
  /// `parts`: where the reduce has holders, the sums of the parts that this worker holds. It must
  /// have the parts' moments, too (rule 31).
  Actions OnGroupReduced(Step step, GroupIndex group, Attempt k, const Digest& digest,
                         std::vector<TensorNorm> norms, std::vector<PartDigest> parts = {}) {
    return folds_.OnGroupReduced(step, group, k, digest, std::move(norms), std::move(parts));
  }
  Actions OnCommit(const Commit& commit) { return commits_.OnCommit(commit); }
  Actions OnGradientsFetched(Step step) { return commits_.OnGradientsFetched(step); }
  Actions OnApplied(Step step);
  /// The shell has read the state that the step has made, beside the work that followed. `parts`:
  /// weights and moments of those that it holds.
  Actions OnStateRead(Step step, const Digest& state, std::vector<PartDigest> parts = {});
  Actions OnWriteCheckpoint(const WriteCheckpoint& request) {
    return copies_.OnWriteCheckpoint(request);
  }
  Actions OnPinState(const PinState& request) { return copies_.OnPinState(request); }
  Actions OnUnpinState(const UnpinState& request) { return copies_.OnUnpinState(request); }

  Version version() const { return standing_.version; }
  /// The last one that it heard of in its generation; before, one without members.
  const Roster& roster() const { return standing_.roster; }
  Term term() const { return standing_.promised; }
  Generation generation() const { return standing_.options.generation; }
  std::uint64_t queued() const { return tasks_.queued(); }
  std::uint64_t parked() const { return tasks_.parked(); }
  std::uint64_t parked_bytes() const { return tasks_.parked_bytes(); }
  /// Bytes of outputs and input gradients that the shell keeps.
  std::uint64_t retained_bytes() const { return tasks_.retained_bytes(); }

  /// The microbatches whose gradients of the step this replica has folded.
  ClaimSet FoldSet(Step step) const { return folds_.FoldSet(step); }

 private:
  /// Takes over the roster, or its change, and what its leavers hand to this replica.
  template <typename Next>
  Actions Adopt(const Next& next);

  Standing standing_;
  Folds folds_;
  Tasks tasks_;
  CommitQueue commits_;
  Copies copies_;
};

}  // namespace swarm::protocol
