// Audits (rule 33): has drawn microbatches executed a second time by other workers, compares what
// both report, and demands the eviction of workers that are wrong. An execution of an audit folds
// nothing, so the ledger does not know it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "worker/protocol/audit.h"
#include "worker/protocol/coordinator/membership/members.h"
#include "worker/protocol/coordinator/step/steps.h"
#include "worker/protocol/routing/router.h"

namespace swarm::protocol {

class Audits {
 public:
  Audits(Job* job, const Members* members, Router* router, Steps* steps)
      : job_(*job), members_(*members), router_(*router), steps_(*steps) {}

  /// All cells of the microbatch were issued: begins an audit of it if it is drawn, and another
  /// worker can execute it.
  void OnIssued(Step step, Microbatch microbatch);
  /// Sends audited microbatches to other workers, as far as these have room.
  void Issue(Turn& turn);
  /// A task's report. True if the task is one of an audit, and none of the ledger.
  bool OnReport(const WorkerId& from, const TaskReport& report, Timepoint now);
  /// The first worker of a route waits for the trainer.
  void OnTokensAwaited(const TaskKey& key, Timepoint now);
  /// Judges the audits of which something is new. Demands the eviction of workers that are wrong,
  /// and that the open steps begin again; has others asked where that decides.
  void Conclude(Turn& turn);
  /// Gives up executions that make no progress for `patience`, so that no step waits for ever.
  void Check(Duration patience, Turn& turn);
  /// The worker is gone, and with it the executions of audits in which it has a part.
  void Lose(const WorkerId& worker);
  /// All replicas begin the steps that read that version, or a later one, again.
  void BeginAgain(Version version);
  /// A step was committed.
  void OnCommitted();
  /// Nothing is in flight any more.
  void Clear();

  /// An audit of the step has not ended: it must not be committed.
  bool Holds(Step step) const;

 private:
  using Name = std::pair<Step, Microbatch>;
  /// An execution on behalf of an audit.
  struct Run {
    std::vector<Hop> hops;
    std::set<StageIndex> done;
    Timepoint progress;
  };
  struct Audit {
    Testimonies testimonies;  ///< of any attempt: what a task gives depends on what it takes alone
    std::optional<Run> run;
    int runs = 0;
    bool told = false;  ///< observers know that results differ
    /// It holds up no commit. It stays until the commit, so that what is computed again, because
    /// a worker is gone or a scale was too fine, is compared as well.
    bool ended = false;
    bool counted = false;  ///< it has ended before
    Verdict verdict;       ///< with which it has ended last
  };
  using Map = std::map<Name, Audit>;

  /// The microbatches of a worker that was suspected are drawn more often.
  double FractionFor(const Ledger::Row& row) const;
  /// By stage: those that have had a part in the audit, or have the microbatch.
  std::vector<std::set<WorkerId>> Involved(const Name& name, const Audit& audit) const;
  /// Another execution can tell something.
  bool NeedsOther(const Name& name, const Audit& audit, const Verdict& verdict) const;
  bool IsFolded(const Name& name) const;
  /// False: open steps begin again.
  bool Judge(const Name& name, Audit& audit, Turn& turn);
  void Convict(const Name& name, const Verdict& verdict, Turn& turn);
  void End(const Name& name, Audit& audit, const Verdict& verdict, Turn& turn);
  /// The run's workers have no more work with it.
  void Stop(Audit& audit);
  void Forget(const Name& name);

  Job& job_;
  const Members& members_;
  Router& router_;
  Steps& steps_;
  Map audits_;             // of steps that are not committed
  std::set<Name> news_;    // something was reported
  std::set<Name> wanted_;  // another execution is to be issued
  std::map<WorkerId, int> suspicions_;
  std::map<WorkerId, Step> agreed_;  // the last audit in which others had the same results
};

}  // namespace swarm::protocol
