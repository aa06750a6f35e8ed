// How long a pod has from SIGTERM to SIGKILL (terminationGracePeriodSeconds).
#pragma once

#include <cstdint>

#include "api/swarmjob.h"

namespace swarm::plan {

inline constexpr std::uint64_t kTrainerGraceSeconds = 60;

/// A worker's process ends by itself after drainSeconds. The pod gets a little longer.
inline std::uint64_t WorkerGraceSeconds(const api::Spec& spec) {
  constexpr std::uint64_t kSlackSeconds = 5;
  return spec.preemption.drainSeconds + kSlackSeconds;
}

}  // namespace swarm::plan
