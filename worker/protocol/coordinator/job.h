// The state of the job that all parts of the coordinator read.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "worker/protocol/coordinator/membership/hold_off.h"
#include "worker/protocol/coordinator/options.h"
#include "worker/protocol/coordinator/step/reduce_groups.h"
#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/observers.h"
#include "worker/protocol/recovery.h"

namespace swarm::protocol {

enum class Phase : std::uint8_t {
  kTakingOver,   ///< asks the workers of an earlier trainer
  kWaiting,      ///< for the workers to begin with
  kStageLost,    ///< for workers, because a stage has no ready replica
  kRollingBack,  ///< a generation is being begun
  kLoading,      ///< all workers load the state to begin with
  kTraining,
  kFinishing,
  kFinished,
};

struct Job {
  Job(CoordinatorOptions job_options, Timepoint now);

  const CoordinatorOptions options;
  const std::vector<ReduceGroup> groups;
  Phase phase;
  Timepoint phase_since;
  Generation generation;
  Version version;          ///< commits that are decided
  std::string begin_uri;    ///< of the state that the generation began with
  Digest begin_manifest;    ///< as Welcome::manifest
  std::uint64_t last_step;  ///< exclusive: where the job ends
  bool stopping = false;
  std::uint64_t attempts = 0;  ///< given out so far
  JobCounts counts;
  HoldOff hold_off;
  std::set<WorkerId> convicted;      ///< by audits: they have no place in the job (rule 33)
  Retired retired;                   ///< by an operator: they have none, either
  std::deque<CommitRecord> records;  ///< the last commits: those that a worker may not have applied
  std::string failure;
  FailureClass failure_class = FailureClass::kNone;

  std::uint64_t stages() const { return options.replicas.size(); }
  bool IsTraining() const { return phase == Phase::kTraining || phase == Phase::kFinishing; }
  void Enter(Phase next, Timepoint now) {
    phase = next;
    phase_since = now;
  }
  Attempt NextAttempt() { return {options.term, ++attempts}; }
  /// The version that the step reads.
  Version VersionFor(Step step) const;
  RowName NameOf(Step step, Microbatch microbatch) const;
  /// Exclusive: steps from `version` to here may be computed. Sync: step t needs the commit of t
  /// - 1. Delayed: it needs that of t - 2.
  std::uint64_t OpenStepsEnd() const;
  /// Welcome to serve the stage, from the state that the generation began with.
  Welcome WelcomeTo(StageIndex stage) const;
  double UnixTime(Timepoint time) const;
};

}  // namespace swarm::protocol
