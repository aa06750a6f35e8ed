// The job's trainer: one pod at a time, each with a term of its own that stands in the status
// before the pod is made.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Sees to it that the job has a trainer, and that its end is the job's end or is followed by the
/// next term.
void DecideTrainer(Draft* draft);

/// The next term, after a suspension: the end of the one before was asked for.
void ResumeTrainer(Draft* draft);

/// Asks the trainer to stop (it finishes the step and writes a checkpoint). True once it is gone,
/// or its time is over.
bool StopTrainer(Draft* draft);

}  // namespace swarm::plan
