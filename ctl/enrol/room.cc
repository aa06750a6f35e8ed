#include "ctl/enrol/room.h"

#include <cstdint>

#include "base/gibibytes.h"
#include "planner/model_costs.h"
#include "planner/stage_memory.h"
#include "worker/model/layout/slice.h"

namespace swarm::ctl {

std::string WhyNoRoom(const api::SwarmJob& job, const planner::Machines& machine) {
  const api::Spec& spec = job.spec;
  if (machine.room() <= 0 || spec.pipeline.residency == api::Residency::kSwap) return "";
  const planner::ModelCosts model(spec);
  double most = 0;
  std::uint64_t largest = 0;
  for (std::uint64_t stage = 0; stage < spec.pipeline.stages; ++stage) {
    const auto slice =
        model::ComputeSlice(spec.model.config, stage, spec.pipeline.stages, spec.pipeline.boundary);
    if (!slice.ok()) return "";  // the trainer says it
    const planner::Run run{static_cast<std::uint64_t>(slice->first),
                           static_cast<std::uint64_t>(slice->count)};
    // Alone it needs least.
    const double needed = planner::LeastMemory(spec, model, machine, run, /*alone=*/true);
    if (needed <= most) continue;
    most = needed;
    largest = stage;
  }
  if (most <= machine.room()) return "";
  return "stage " + std::to_string(largest) + " of " + std::to_string(spec.pipeline.stages) +
         " needs " + GibibytesText(most) +
         " of memory at least, and a worker of this machine has " + GibibytesText(machine.room()) +
         ": it has no room for it. Join with more memory, or try it with --no-probe";
}

}  // namespace swarm::ctl
