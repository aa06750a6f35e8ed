// Control messages of repairs, leaves, joins and takeovers. proto/swarmjob/v1/recovery.proto has
// the same on the wire.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "worker/protocol/ids.h"
#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/data.h"

namespace swarm::protocol {

// ---- recovery ----

/// trainer → worker: send the output of your task `source` as `frame` to the worker that it names
/// (its tokens are those of the task). If the forward is not done yet: go on with the hops of
/// `frame` when it is. If the task has not come yet: when it has.
struct Resend {
  Term term;
  TaskKey source;
  Forward frame;  ///< without tokens
};

/// trainer → worker: the input gradient of your task `source` goes to `to`, as that of `target`:
/// now if it is there, else when it is.
struct Redirect {
  Term term;
  TaskKey source;
  WorkerId to;
  TaskKey target;
};

/// worker → trainer: the task is over and its output is not retained any more.
struct Missing {
  TaskKey source;
  bool gradient = false;  ///< the input gradient (Redirect); else the output (Resend)
};

/// trainer → worker: stop this attempt; it must not fold any more (rule 9).
struct Revoke {
  Term term;
  TaskKey key;
};

/// worker → trainer: the answer to Revoke.
struct Revoked {
  TaskKey key;
  bool folded = false;  ///< it was folded before; else it never will be
};

/// trainer → worker: clear accumulator and fold set of the step, close its attempts, thaw (rule 9).
struct Void {
  Term term;
  Generation generation;
  Step step;
  Attempt number;           ///< named in the answer
  std::uint64_t level = 0;  ///< of the step's scale from now on (exact accumulation)
};

/// worker → trainer.
struct Voided {
  Generation generation;
  Step step;
  Attempt number;
};

/// trainer → worker: the reduces of the step are off; folds go on (rule 11).
struct Thaw {
  Term term;
  Generation generation;
  Step step;
};

/// trainer → worker: forget the earlier generation and begin anew, as this stage, from this state.
/// Answered with Ready (rule 19).
struct Rollback {
  Term term;
  Generation generation;
  StageIndex stage;
  Version version;
  std::string checkpoint_uri;  ///< empty: the initial weights
  Digest manifest = {};        ///< as Welcome::manifest
};

// ---- leaving and joining ----

/// worker → trainer: this worker was told that it will end.
struct Leaving {
  double seconds = 0;  ///< until then
};

/// trainer → leaving worker: fold nothing more into the step, and hand its sums to `heir`.
struct HandOver {
  Term term;
  Generation generation;
  Step step;
  WorkerId heir;
};

/// heir → trainer: the whole parcel is here.
struct ParcelHeld {
  Generation generation;
  Step step;
  WorkerId donor;
  std::vector<Contribution> contributions;
};

/// trainer → replica: keep a copy of your state of `version` for joiners.
struct PinState {
  Term term;
  Generation generation;
  Version version;
};

/// replica → trainer.
struct StatePinned {
  Generation generation;
  Version version;
  Digest state;
  std::string error;  ///< empty: pinned
  /// Steps whose reduced gradients the replica has room for, counted back from its version; 0: it
  /// does not say.
  std::uint64_t kept_steps = 0;
};

/// trainer → replica: joiners do not need it any more.
struct UnpinState {
  Term term;
  Generation generation;
  Version version;
};

// ---- takeover ----

/// A new trainer → workers: promise this term, close all attempts of lower ones that are not
/// folded, and say what you hold (rule 13).
struct Takeover {
  Term term;
};

/// One group's reduce, as a worker holds it.
struct HeldReduce {
  GroupIndex group;
  Attempt k;
  std::vector<WorkerId> participants;
  bool operator==(const HeldReduce&) const = default;
};

/// A worker's holding of a step that it has not applied.
struct HeldStep {
  Step step;
  std::uint64_t level = 0;
  std::vector<Contribution> folded;  ///< sorted by microbatch
  std::vector<HeldReduce> reduces;   ///< that have frozen it
};

/// worker → new trainer: everything that matters (rule 3).
struct Holding {
  Term term;
  Generation generation;
  Member self;
  Version version;
  Roster roster;                      ///< the last one heard of
  std::vector<CommitRecord> records;  ///< heard of and kept, applied or not; ordered by step
  std::vector<HeldStep> steps;
  /// The last steps before those that it has applied, ordered. The trainer decides nothing from
  /// them, but its log of losses may lack them.
  std::vector<CommitRecord> past = {};
  /// It has the moments of the parts that the last step that it has applied makes its own; or, if
  /// it has applied none, those of all parts (rule 31).
  bool holds = false;
};

}  // namespace swarm::protocol
