#include "operator/objects/choose.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "api/prices.h"
#include "operator/objects/build.h"
#include "planner/choice.h"

namespace swarm::objects {
namespace {

using api::FieldError;

FieldError Missing(const std::string& problem, const std::string& remedy) {
  return {"spec.pipeline.stages", "is Auto, and " + problem, remedy + "; or a number of stages"};
}

/// The workers that the pools have room for; none: without limit.
std::optional<std::uint64_t> RoomOf(const std::vector<api::Pool>& pools) {
  std::uint64_t room = 0;
  for (const api::Pool& pool : pools) {
    if (!pool.maxReplicas) return std::nullopt;
    room += *pool.maxReplicas;
  }
  return room;
}

/// So many machines, of the first pools with room.
planner::Fleet FleetOf(const api::Spec& spec, std::uint64_t most) {
  planner::Fleet fleet;
  for (const api::Pool& pool : spec.workers.pools) {
    const std::uint64_t count = std::min(pool.maxReplicas.value_or(most), most);
    most -= count;
    fleet.groups.push_back(planner::MachinesOf(pool.name, count, *pool.machine));
    double& memory = fleet.groups.back().memory_bytes;
    if (memory == 0) memory = static_cast<double>(SharesOfPod(spec, pool).memory_bytes);
  }
  // Nothing but the prices is known of what lies between regions.
  for (const api::TrafficPrice& price : spec.workers.traffic) {
    fleet.links.push_back({.a = price.between[0],
                           .b = price.between[1],
                           .dollars_per_byte = api::DollarsPerByte(price)});
  }
  return fleet;
}

FieldError NoDeviceMemory(const api::Pool& pool) {
  return Missing("nothing says the memory of the devices in pool " + pool.name,
                 "give machine, with deviceMemoryGiB, in all pools");
}

api::Checked<api::PlanChoice> ChooseForMachines(const JobView& view, std::uint64_t most) {
  const api::Spec& spec = view.job.spec;
  for (const api::Pool& pool : spec.workers.pools) {
    if (SharesOfPod(spec, pool).on_device && pool.machine->deviceMemoryGiB == 0) {
      return NoDeviceMemory(pool);
    }
  }
  planner::Request request{.job = view.job, .fleet = FleetOf(spec, most), .open = *view.open};
  request.job.spec.workers.replicas = most;
  request.in_order = true;
  return planner::Choose(request, "the machines of spec.workers.pools");
}

/// All that is known is what the pods say; a worker may be in any pool.
api::Checked<api::PlanChoice> ChooseForPods(const JobView& view, std::uint64_t most) {
  const api::Spec& spec = view.job.spec;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const api::Pool& pool : spec.workers.pools) {
    const PodShares shares = SharesOfPod(spec, pool);
    if (shares.on_device) return NoDeviceMemory(pool);
    if (shares.memory_bytes == 0) {
      return Missing("nothing says the memory of the workers in pool " + pool.name,
                     "give resources.limits.memory, or machine in all pools");
    }
    least = std::min(least, shares.memory_bytes);
  }
  return planner::ChooseForMemory(view.job,
                                  {.count = most, .memory_bytes = static_cast<double>(least)});
}

api::Checked<api::PlanChoice> ChooseFor(const JobView& view) {
  const api::Spec& spec = view.job.spec;
  if (spec.model.config.hidden_size == 0) {
    return Missing("the operator does not read the model that spec.model.uri names",
                   "give spec.model.config");
  }
  const auto room = RoomOf(spec.workers.pools);
  if (view.open->replicas && !room) {
    return Missing("nothing says how many workers there may be",
                   "give workers.replicas, or maxReplicas in all pools");
  }
  std::uint64_t most = view.open->replicas ? *room : spec.workers.replicas;
  if (room) most = std::min(most, *room);
  return spec.workers.pools.front().machine ? ChooseForMachines(view, most)
                                            : ChooseForPods(view, most);
}

}  // namespace

api::Checked<api::PlanChoice> ChoosePlan(const JobView& view) {
  auto choice = ChooseFor(view);
  if (choice.ok()) (*choice).generation = view.generation;
  return choice;
}

}  // namespace swarm::objects
