// Pods that shall not be: whatever the status does not name.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Deletes workers' pods that are not open in the draft's status, and trainers' pods of earlier
/// terms. What has ended by itself stays for a while, for its log.
void Sweep(Draft* draft);

}  // namespace swarm::plan
