// Creations that the API server refuses: a quota, an admission rule, a pod it takes for malformed.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Whether pods may be created now: after a refusal only from time to time. Else it has the draft
/// look again when they may.
bool MayCreate(Draft* draft);

/// How many at once: one until it is known that they are not refused any more.
std::uint64_t CreationsMax(const Observed& observed);

}  // namespace swarm::plan
