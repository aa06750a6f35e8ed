// Issues microbatches, follows their progress, and takes them from workers that make no progress
// (rules 7, 9, 24).
#pragma once

#include "worker/protocol/coordinator/step/audits.h"
#include "worker/protocol/coordinator/step/steps.h"
#include "worker/protocol/coordinator/step/validation.h"

namespace swarm::protocol {

class Dispatch {
 public:
  Dispatch(Job* job, Members* members, const BrokenPairs* broken, Router* router, Steps* steps,
           Validation* validation, Audits* audits)
      : job_(*job),
        members_(*members),
        broken_(*broken),
        router_(*router),
        steps_(*steps),
        validation_(*validation),
        audits_(*audits) {}

  /// Opens the steps that may be computed, and issues as much as fits: repairs first, then audits,
  /// then validation, then fresh microbatches.
  void IssueAll(Turn& turn);
  void OnProgress(const WorkerId& from, const Progress& progress, Turn& turn);
  /// The worker of the first stage waits for the trainer: it is not to blame.
  void OnTokensAwaited(const TaskKey& key, Timepoint now);
  /// A worker lacks the output or gradient that it was asked for, which must be computed again.
  void OnMissing(const WorkerId& from, const Missing& missing, Turn& turn);
  void OnRevoked(const WorkerId& from, const Revoked& revoked, Turn& turn);
  /// Demands the eviction of a worker whose device hangs while its process lives.
  void OnBeat(const WorkerId& from, const Heartbeat& beat, Turn& turn);
  /// Revokes microbatches that make no progress, and demands the eviction of workers that do not
  /// answer.
  void Check(Turn& turn);

 private:
  /// Issues the missing cells of a row; false if there is no room for them.
  bool IssueRow(Step step, StepState& state, Microbatch microbatch, Turn& turn);
  void BeginPass(PassOrders pass, StepState& state, Turn& turn);
  void OnReport(const WorkerId& from, const TaskReport& report, Turn& turn);
  /// The microbatch has made progress.
  void Touch(StepState& state, Microbatch microbatch, Timepoint now);
  /// The worker has folded the microbatch.
  /// The fold may have been the last work of a worker that leaves.
  void NoteRest(const StepState& state, const TaskKey& folded, const WorkerId& from,
                Turn& turn) const;
  /// The last stage to be done with a microbatch, the first of the job, has folded it.
  void MeasureStay(const StepState& state, Microbatch microbatch, Timepoint now);
  void CheckRow(Step step, StepState& state, Microbatch microbatch, Turn& turn);
  Duration RowPatience(int tries) const;
  /// Who computes again what `from` has lost: itself, unless the row was stuck before, when the
  /// other replicas take turns with it. Its way to a neighbour may be broken for good, and only
  /// neighbours that hear each other all the time would tell of that.
  const WorkerId& Recomputer(const WorkerId& from, StageIndex stage, int tries) const;
  /// The row waits for an output or a gradient that was sent to a worker which could not be
  /// reached.
  bool IsLost(const RowState& row, const Ledger::Row& cells, Timepoint now) const;
  /// Takes the microbatch from the owner of the stage.
  void Revoke(Step step, StepState& state, Microbatch microbatch, StageIndex stage, Turn& turn);

  Job& job_;
  Members& members_;
  const BrokenPairs& broken_;
  Router& router_;
  Steps& steps_;
  Validation& validation_;
  Audits& audits_;
  double slowest_work_ = 0;  // of a forward or backward, in seconds; decays
  double slowest_gap_ = 0;   // between two signs of progress of a row, in seconds; decays
};

}  // namespace swarm::protocol
