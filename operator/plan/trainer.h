// The job's trainer: one pod at a time. Each has a term of its own, which is written into the
// status before the pod is created.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// The pod of the newest term that the draft's status has reserved; null: it is not visible.
const ObservedPod* FindTrainer(const Draft& draft);

/// Keeps a trainer running. When its pod ends, either the job has finished or the next term begins.
void DecideTrainer(Draft* draft);

/// Begins the next term after a suspension, without counting the end of the last trainer: the
/// operator had asked for it.
void ResumeTrainer(Draft* draft);

/// Asks the trainer to stop: it finishes its step and writes a checkpoint. Returns true once the
/// trainer is gone, or its time is over.
bool StopTrainer(Draft* draft);

}  // namespace swarm::plan
