// Deletes the pods that the job no longer wants.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Deletes worker pods that are not open in the draft's status, and trainer pods of earlier terms.
/// A pod that ended by itself is kept for some minutes, so that people can read its log.
void CleanUpPods(Draft* draft);

}  // namespace swarm::plan
