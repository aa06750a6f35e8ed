// The account of the steps that are begun and not committed: for each the ledger, the progress of
// each microbatch, the reduces, and the Voids under way (docs/protocol.md, rules 7 to 11).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/protocol/coordinator/membership/members.h"
#include "worker/protocol/ledger.h"
#include "worker/protocol/reachability/broken_pairs.h"
#include "worker/protocol/routing/router.h"

namespace swarm::protocol {

/// The progress of one microbatch, beside its row of the ledger.
struct RowState {
  struct Revoking {
    TaskKey key;
    WorkerId worker;
    Timepoint deadline;
  };
  Timepoint progress;    ///< when it last made progress; none: issued by the earlier trainer
  Timepoint drawn;       ///< when a first route was drawn; none for later attempts
  int tries = 0;         ///< revoked attempts
  bool charged = false;  ///< the router knows of the delay
  WorkerId avoid;        ///< for the next attempt
  std::optional<Revoking> revoking;
};

/// The reduce of one group in one step.
struct ReduceState {
  std::optional<Attempt> k;               ///< the current attempt; none: not asked, or thawed
  std::map<WorkerId, Reduced> reports;    ///< of k
  std::vector<WorkerId> participants;     ///< by seat (ReduceGrid)
  std::size_t rows = 1;                   ///< in which they sit
  std::vector<std::uint64_t> regions;     ///< of the rows, if there are several
  std::vector<Participant> claims;        ///< that k names
  std::vector<PartHolders> holders;       ///< by part, where the group is divided
  std::map<WorkerId, Awaiting> awaiting;  ///< last reports of participants that wait for chunks
  Timepoint asked;                        ///< for the first time; none: never
  Timepoint since;
  Timepoint progress;  ///< when a chunk, or a report, came last
  int tries = 0;
  int disagreements = 0;  ///< of participants about the sum

  bool TakesPart(const WorkerId& id) const;
  /// Whether both take part, and send each other data.
  bool Exchange(const WorkerId& a, const WorkerId& b) const;
};

struct StepState {
  struct Voiding {
    Attempt number;
    Timepoint deadline;
  };
  StepState(std::uint64_t microbatches, std::uint64_t stages)
      : ledger(microbatches, stages),
        rows(microbatches),
        levels(stages, 0),
        task_seconds(stages, 0) {}

  Ledger ledger;
  std::vector<RowState> rows;
  std::vector<std::uint64_t> levels;    ///< scale level, per stage
  std::map<WorkerId, Voiding> voiding;  ///< workers whose answers are awaited
  std::uint64_t boundary_bytes = 0;
  std::vector<double> task_seconds;  ///< of forwards and backwards, per stage
  bool begun = false;                ///< a microbatch was issued
  std::map<GroupIndex, ReduceState> reduces;
  // Resends and redirects that were asked for: a worker may answer that it lacks the output that it
  // is to send.
  std::map<TaskKey, std::vector<Forward>> resends;
  std::map<TaskKey, std::pair<WorkerId, TaskKey>> redirects;
};

class Steps {
 public:
  Steps(Job* job, Members* members, Router* router)
      : job_(*job), members_(*members), router_(*router) {}

  using Map = std::map<Step, StepState>;
  Map& all() { return steps_; }
  const Map& all() const { return steps_; }
  StepState* Find(Step step);
  /// The same for a message of this generation; else null.
  StepState* Find(Generation generation, Step step);
  StepState& Open(Step step);
  void Erase(Step step) { steps_.erase(step); }
  void Clear() { steps_.clear(); }

  /// The worker owns no cell of the step any more.
  void LoseCells(StepState& state, const WorkerId& worker);
  /// Removes the worker from all steps. `stage`: the stage that it served as a member of the
  /// roster.
  void Lose(const WorkerId& worker, std::optional<StageIndex> stage, Turn& turn);
  /// The stage's replicas may fold into the step again; its sums will be made anew.
  void ThawStage(Step step, StepState& state, StageIndex stage, Turn& turn);
  /// The worker clears what it has folded into the step (rule 9).
  void VoidWorker(const WorkerId& worker, Step step, StepState& state, Turn& turn);
  /// All replicas that sum with the stage begin the step again, one scale level lower (rule 22).
  void VoidStage(Step step, StepState& state, StageIndex stage, Turn& turn);
  /// All replicas begin the steps that read that version, or a later one, again. `without`: what
  /// was wrong, for people.
  void BeginAgain(Version version, const std::string& without, Turn& turn);
  void OnVoided(const WorkerId& from, const Voided& voided, Turn& turn);
  /// Demands the eviction of workers that do not answer a Void.
  void CheckVoids(const StepState& state, Turn& turn) const;

  /// A replica of the stage has not answered a Void of the step.
  bool IsVoiding(const StepState& state, StageIndex stage) const;
  /// A sum of the stage's tensors was asked for.
  bool IsReducing(const StepState& state, StageIndex stage) const;

 private:
  /// All replicas of the stage begin the step again, at its scale level.
  void RestartStage(Step step, StepState& state, StageIndex stage, Turn& turn);

  Job& job_;
  Members& members_;
  Router& router_;
  Map steps_;
};

}  // namespace swarm::protocol
