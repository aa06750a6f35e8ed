// The kinds of events of a job: words in events.jsonl that programs read, so they never change.
#pragma once

#include <array>
#include <cstdint>

#include "base/enum_names.h"

namespace swarm::protocol {

enum class EventKind : std::uint8_t {
  kTrainingStarted,
  kTookOver,         ///< this trainer goes on from the state of the earlier trainer's workers
  kWorkerJoining,    ///< copies the state of its stage from other replicas
  kWorkerJoined,     ///< serves a stage
  kWorkerMoves,      ///< is to leave its stage for another
  kRegionsSpread,    ///< which stages are in one region alone, or that none is any more
  kWorkerLeaving,    ///< will end, and hands over its sums first
  kWorkerLeft,       ///< has ended in order
  kWorkerLost,       ///< was evicted
  kWorkerRefused,    ///< was not accepted into the job
  kPairBroken,       ///< two workers do not reach each other
  kRoutesPlanned,    ///< routes of microbatches follow other shares
  kMicrobatchStuck,  ///< is taken from a worker that makes no progress with it
  kReduceRefused,    ///< a worker has folded other microbatches than the ledger has
  kReduceDiffers,    ///< the participants of a sum hold different values of it
  kStepRepeated,     ///< a step begins again, since a worker has computed something of it wrongly
  kAuditDiffers,     ///< two executions of one task have different results
  kScaleLowered,     ///< a stage sums a step again, with room for larger gradients
  kStepSkipped,      ///< gradients were not finite; the weights stay
  kStageLost,        ///< a stage has no replica
  kRolledBack,       ///< the job went back to a checkpoint
  kRollbackDelayed,  ///< the storage of the checkpoints does not answer
  kCheckpointWritten,
  kCheckpointFailed,
  kCheckpointDamaged,    ///< a file is not what was written; the checkpoint is set aside
  kCheckpointDelayed,    ///< it was due while an earlier one was being written
  kCheckpointCopied,     ///< a region's storage has it
  kCheckpointNotCopied,  ///< a region's storage lacks it; tried again with the next one
  kStopping,             ///< a stop was requested
  kSucceeded,
  kFailed,
};

}  // namespace swarm::protocol

namespace swarm {

template <>
struct EnumNames<protocol::EventKind> {
  using E = protocol::EventKind;
  static constexpr auto kNames = NameTable<E>({
      {E::kTrainingStarted, "TrainingStarted"},
      {E::kTookOver, "TookOver"},
      {E::kWorkerJoining, "WorkerJoining"},
      {E::kWorkerJoined, "WorkerJoined"},
      {E::kWorkerMoves, "WorkerMoves"},
      {E::kRegionsSpread, "RegionsSpread"},
      {E::kWorkerLeaving, "WorkerLeaving"},
      {E::kWorkerLeft, "WorkerLeft"},
      {E::kWorkerLost, "WorkerLost"},
      {E::kWorkerRefused, "WorkerRefused"},
      {E::kPairBroken, "PairBroken"},
      {E::kRoutesPlanned, "RoutesPlanned"},
      {E::kMicrobatchStuck, "MicrobatchStuck"},
      {E::kReduceRefused, "ReduceRefused"},
      {E::kReduceDiffers, "ReduceDiffers"},
      {E::kStepRepeated, "StepRepeated"},
      {E::kAuditDiffers, "AuditDiffers"},
      {E::kScaleLowered, "ScaleLowered"},
      {E::kStepSkipped, "StepSkipped"},
      {E::kStageLost, "StageLost"},
      {E::kRolledBack, "RolledBack"},
      {E::kRollbackDelayed, "RollbackDelayed"},
      {E::kCheckpointWritten, "CheckpointWritten"},
      {E::kCheckpointFailed, "CheckpointFailed"},
      {E::kCheckpointDamaged, "CheckpointDamaged"},
      {E::kCheckpointDelayed, "CheckpointDelayed"},
      {E::kCheckpointCopied, "CheckpointCopied"},
      {E::kCheckpointNotCopied, "CheckpointNotCopied"},
      {E::kStopping, "Stopping"},
      {E::kSucceeded, "Succeeded"},
      {E::kFailed, "Failed"},
  });
};

}  // namespace swarm
