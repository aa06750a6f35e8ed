// The first work of a new trainer: it asks the workers of the earlier trainer what they hold, and
// builds the account of the job from their answers (rules 4 and 13).
#pragma once

#include <map>
#include <set>
#include <string>

#include "worker/protocol/coordinator/membership/evictions.h"
#include "worker/protocol/coordinator/step/commits.h"

namespace swarm::protocol {

class TakingOver {
 public:
  TakingOver(Job* job, Members* members, Steps* steps, Commits* commits, Evictions* evictions)
      : job_(*job),
        members_(*members),
        steps_(*steps),
        commits_(*commits),
        evictions_(*evictions) {}

  enum class Verdict {
    kWait,     ///< for more answers
    kNothing,  ///< no newer state than the last checkpoint is held; workers were told to leave
    kAdopted,  ///< the job trains on
  };

  /// A worker has come that serves: it was told of the takeover.
  void NoteArrival(const WorkerId& worker, Timepoint now);
  /// False if the answer does not count. A worker that comes too late is told to leave.
  bool OnHolding(const WorkerId& from, const Holding& holding, Turn& turn);
  /// The worker has applied a record since it answered.
  void OnCommitted(const WorkerId& from, const Committed& committed);
  /// Goes on with the held state, once all members of the last roster have answered or are late.
  Verdict Decide(Turn& turn);
  /// The worker's answer does not count any more.
  void Forget(const WorkerId& worker) { holdings_.erase(worker); }
  /// The same for one that is lost. If it lives, it waits for an answer, and hears that there will
  /// be none.
  void Lose(const Departure& departure, Turn& turn);
  /// How many workers have answered.
  std::size_t answered() const { return holdings_.size(); }

 private:
  /// The newest roster among the answers.
  const Roster* FindNewestRoster() const;
  /// Whether workers that have not answered are given up.
  bool IsLate(const Roster* roster, Timepoint now) const;
  /// The newest version that the roster's members hold or can reach.
  Version NewestHeld(const Roster& roster) const;
  void Adopt(const Roster& roster, Turn& turn);
  /// Takes over the members' holdings, and sends other workers away.
  void AdoptMembers(const Roster& roster, Turn& turn);
  /// Takes over the decided commits, and reports those that the run's log may lack.
  void AdoptRecords(Turn& turn);
  /// Who holds which parts (rule 31), by the records and by what was loaded.
  void AdoptHolders(const std::map<Step, CommitRecord>& records);
  /// Whether the worker has what the record makes its own.
  bool Holds(const WorkerId& id, const CommitRecord& record, const GroupResult& result) const;
  /// Builds the account of the steps in progress from the fold sets.
  void AdoptSteps(Turn& turn);
  void AdoptStep(Step step, StepState& state, Turn& turn);

  Job& job_;
  Members& members_;
  Steps& steps_;
  Commits& commits_;
  Evictions& evictions_;
  std::map<WorkerId, Holding> holdings_;
  std::set<WorkerId> came_;
  Timepoint last_came_;
};

}  // namespace swarm::protocol
