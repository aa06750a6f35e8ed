// What the job's trainer says, as far as the operator may believe it. Pure.
#pragma once

#include <cstdint>

#include "operator/plan/observed.h"

namespace swarm::plan {

/// The greatest age of a trainer's status that proves that a worker lives.
inline constexpr std::int64_t kViewSeconds = 15;

/// The trainer's status. Null: it is older than `age` seconds, or it is not from the trainer of the
/// current term.
const protocol::JobStatus* FreshView(const Observed& observed, std::int64_t age);

}  // namespace swarm::plan
