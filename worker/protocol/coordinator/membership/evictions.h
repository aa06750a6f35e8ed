// Departures of workers: removes a worker from all parts of the coordinator, and tells observers
// why.
#pragma once

#include <deque>
#include <vector>

#include "worker/protocol/coordinator/membership/joins.h"
#include "worker/protocol/coordinator/membership/leaves.h"
#include "worker/protocol/coordinator/membership/reachability.h"
#include "worker/protocol/coordinator/membership/rebalancing.h"
#include "worker/protocol/coordinator/step/audits.h"
#include "worker/protocol/coordinator/step/checkpoints.h"
#include "worker/protocol/coordinator/step/state_reports.h"
#include "worker/protocol/coordinator/step/steps.h"
#include "worker/protocol/coordinator/step/validation.h"

namespace swarm::protocol {

class Evictions {
 public:
  struct Accounts {
    Steps* steps;
    StateReports* states;
    Leaves* leaves;
    Joins* joins;
    Validation* validation;
    Audits* audits;
    Checkpoints* checkpoints;
    Reachability* reachability;
    Rebalancing* rebalancing;
  };
  Evictions(Job* job, Members* members, Accounts accounts)
      : job_(*job), members_(*members), accounts_(accounts) {}

  /// Carries the departures out. True if the roster has changed.
  bool Carry(const std::vector<Departure>& departures, Turn& turn);
  /// Removes the worker from all accounts.
  void Forget(const WorkerId& id, Turn& turn);
  /// Notes the eviction of a member of the roster for observers.
  void Note(const Member& member, bool in_roster, EvictionCause cause, const std::string& why,
            Timepoint now);
  /// A step was committed: the job has recovered from the evictions before.
  void OnCommitted();
  /// The last evictions, oldest first: more than are new between two looks of an observer.
  const std::deque<Eviction>& last() const { return last_; }

 private:
  Job& job_;
  Members& members_;
  const Accounts accounts_;
  std::deque<Eviction> last_;
  std::uint64_t recovering_ = 0;  // evictions of members since the last commit
};

}  // namespace swarm::protocol
