// How many workers a job has at a moment.
#pragma once

#include <cstdint>

#include "worker/protocol/messages/observers.h"

namespace swarm::protocol {

/// Those of the stages, in whatever state, and those without a stage.
inline std::uint64_t CountWorkers(const JobStatus& status) {
  std::uint64_t count = status.spares.size();
  for (const StageStatus& stage : status.stages) count += stage.workers.size();
  return count;
}

}  // namespace swarm::protocol
