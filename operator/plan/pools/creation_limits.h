// When and how many pods may be created. The API server may refuse creations: because of a quota,
// an admission rule, or a malformed pod.
#pragma once

#include "operator/plan/draft.h"

namespace swarm::plan {

/// Whether pods may be created now. After a refusal, creation is retried with a back-off; the draft
/// then asks for a decision at the time of the next try.
bool MayCreate(Draft* draft);

/// How many pods one plan may create: one after a refusal, until a creation succeeds.
std::uint64_t CreationsMax(const Observed& observed);

}  // namespace swarm::plan
