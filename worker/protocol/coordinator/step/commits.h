// Decides commits, and compares the states of replicas after them (rules 4 and 12).
#pragma once

#include "worker/protocol/coordinator/membership/joins.h"
#include "worker/protocol/coordinator/step/state_reports.h"
#include "worker/protocol/coordinator/step/steps.h"
#include "worker/protocol/coordinator/trouble.h"

namespace swarm::protocol {

class Commits {
 public:
  Commits(Job* job, Members* members, Trouble* trouble, StateReports* states, Steps* steps,
          Joins* joins)
      : job_(*job),
        members_(*members),
        trouble_(*trouble),
        states_(*states),
        steps_(*steps),
        joins_(*joins) {}

  /// Training begins, or goes on after a takeover.
  void OnTrainingBegun(Timepoint now) { last_commit_ = now; }
  /// Decides the next step if all its groups are reduced, and all replicas have reported the state
  /// with which they computed it. True if it did.
  bool CommitIfReduced(Turn& turn);
  /// A worker has applied a commit. Demands the eviction of replicas whose state is not that of the
  /// majority of their stage; they come back as joiners, and what was computed with such a state is
  /// void. Where there is no majority, all go, and the job goes back to a checkpoint: it is unknown
  /// which of them are right.
  void OnApplied(const WorkerId& from, const Committed& committed, Turn& turn);
  /// Takes over a commit of the earlier trainer.
  void Adopt(const CommitRecord& record);
  /// Tells the roster all commits that a worker may not have applied.
  void Repeat(Turn& turn) const;
  /// A generation begins: earlier decisions and reports are void.
  void Clear();

  const CommitRecord& last_record() const { return last_record_; }
  double seconds_per_step() const { return seconds_per_step_; }

 private:
  /// What the step took, by stage.
  std::vector<order::StageTime> TakeTimes(const StepState& state);
  /// Remembers which workers have the sums of the step that is decided now.
  void NoteSums(const StepState& state);
  void Announce(const CommitRecord& record, Turn& turn);
  void CompareStates(Version version, StageIndex stage, Turn& turn);
  /// Two holders of a part differ, and nobody can tell which is right: both go, and with them the
  /// part (rule 31). True if it is so.
  bool CompareParts(const WorkerId& from, Version version, const std::vector<PartDigest>& parts,
                    Turn& turn);

  Job& job_;
  Members& members_;
  Trouble& trouble_;
  StateReports& states_;
  Steps& steps_;
  Joins& joins_;
  CommitRecord last_record_;
  Timepoint last_commit_;
  double seconds_per_step_ = 0;  // an average
};

}  // namespace swarm::protocol
