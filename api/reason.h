// The reasons of a SwarmJob's conditions and events. Users' tools match them, so a spelling never
// changes. enum_names.h has the table of spellings.
#pragma once

#include <cstdint>

namespace swarm::api {

/// Why a condition has its status, or what an event is about. One reason can serve both.
enum class Reason : std::uint8_t {
  // The manifest.
  kValid,
  kInvalid,     ///< the manifest has errors
  kRejected,    ///< an event, and the reason of every other condition of an invalid manifest
  kPodRefused,  ///< the API server refuses the job's pods
  kPlanned,     ///< an event: the planner has chosen what the manifest leaves open
  // Suspension.
  kSuspending,
  kSuspended,
  kNotSuspended,
  kResumed,
  kImageChanged,  ///< an event: new pods of the job run another image of the operator
  // Money.
  kBudgetLeft,
  kBudgetLow,    ///< nine tenths are spent
  kBudgetSpent,  ///< the operator suspends the job
  // The job's queue.
  kQueued,  ///< it waits for its turn
  kAdmitted,
  kEvicted,           ///< the queue takes its quota back
  kNotAdmitted,       ///< the job has no pods, or must give them up, because of its queue
  kQueueUnavailable,  ///< the operator cannot ask for admission
  // Capacity.
  kAvailable,
  kNoCapacity,
  kQuotaExceeded,
  kNotAsked,  ///< no pod has waited for a node yet
  kReleased,  ///< the operator gave up all workers and only probes for capacity
  kPoolDry,
  kPoolReturned,
  kNodeAvoided,  ///< an event: new pods of the job prefer other nodes
  // Other clusters.
  kClusterExpected,        ///< a satellite has not come yet
  kEveryClusterConnected,  ///< each cluster with pools of the job
  kClusterAway,            ///< the operator has not reached one for a while
  kClusterReturned,        ///< an event: one that was away is connected again
  // The trainer.
  kTrainerStarting,
  kTrainerUnschedulable,  ///< no node fits the trainer's pod
  kTrainerReplaced,       ///< an event: a changed manifest may find its pod a node
  kTrainerPrepares,
  kTrainerLost,
  kTrainerFailed,
  kTrainerPreempted,
  // The workers.
  kStagesMissing,
  kEveryStageReady,
  kWorkerMoved,
  kWorkerLost,
  kWorkerFailed,
  kWorkerPreempted,
  // The end of the job.
  kNotFinished,
  kFinished,
  kTrained,
  kSucceeded,
  kTooManyFailures,
  kBadConfiguration,
  kStorageRefused,
  kImageNotAvailable,
};

}  // namespace swarm::api
