#include "planner/stage_memory.h"

#include <algorithm>
#include <limits>

#include "api/model/memory.h"
#include "api/model/residency.h"
#include "planner/swapping.h"

namespace swarm::planner {
namespace {

constexpr double kDeviceShare = 1 - api::kDeviceSpare;
/// More than any machine has, and still a whole number.
constexpr double kMost = 1e18;

/// What a state leaves of so many bytes.
std::uint64_t Beside(std::uint64_t state, double bytes) {
  const auto whole = static_cast<std::uint64_t>(std::min(bytes, kMost));
  return whole > state ? whole - state : 0;
}

}  // namespace

double StageMemory::Held(std::uint64_t in_flight) const {
  return static_cast<double>(state + graph.backward + in_flight * graph.kept);
}

StageMemory MemoryOf(const api::Spec& spec, const ModelCosts& model, const Machines& group, Run run,
                     bool alone) {
  if (spec.pipeline.residency == api::Residency::kSwap) {
    const std::optional<Swapping> swapping = SwapStage(spec, model, group, run);
    if (!swapping) return {.graph = {.kept = 1}, .state = static_cast<std::uint64_t>(kMost)};
    // Between forward and backward only inputs of segments are kept, in the segments' memory.
    const api::StageGraph segment = api::GraphOf(spec, swapping->layers, swapping->head);
    if (group.device_bytes > 0) {
      // The inputs are in the memory of the host; a task's come and leave beside another's.
      return {.graph = {.kept = 1,
                        .backward = segment.kept + segment.backward + 4 * segment.boundary,
                        .boundary = segment.boundary},
              .state = swapping->memory};
    }
    return {.graph = {.kept = segment.boundary,
                      .backward = segment.kept + segment.backward,
                      .boundary = segment.boundary},
            .state = swapping->memory};
  }
  const Parameters parameters = model.ParametersOf(run);
  StageMemory memory{
      .graph = api::GraphOf(spec, run.count, /*head=*/run.first + run.count == model.layers())};
  if (group.device_bytes <= 0) {
    memory.state = api::ServingBytes(spec, parameters.trained, parameters.frozen, alone);
    return memory;
  }
  const bool offloads = IsOffloaded(spec, model, group, run);
  memory.state =
      api::DeviceBytes(spec, offloads ? api::Residency::kOffload : api::Residency::kResident,
                       parameters.trained, parameters.frozen);
  return memory;
}

bool IsOffloaded(const api::Spec& spec, const ModelCosts& model, const Machines& group, Run run) {
  if (group.device_bytes <= 0) return false;
  if (spec.pipeline.residency) return spec.pipeline.residency == api::Residency::kOffload;
  const Parameters parameters = model.ParametersOf(run);
  const std::uint64_t resident =
      api::DeviceBytes(spec, api::Residency::kResident, parameters.trained, parameters.frozen);
  const std::uint64_t graphs = api::LeastGraphBytes(
      api::GraphOf(spec, run.count, /*head=*/run.first + run.count == model.layers()));
  return static_cast<double>(resident + graphs) > kDeviceShare * group.device_bytes;
}

std::uint64_t InFlightRoom(const StageMemory& memory, const Machines& group) {
  if (group.room() <= 0) return std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t graphs = group.device_bytes > 0
                                   ? Beside(memory.state, kDeviceShare * group.device_bytes)
                                   : api::GraphShare(Beside(memory.state, group.memory_bytes));
  return api::InFlightRoom(memory.graph, graphs);
}

double LeastMemory(const api::Spec& spec, const ModelCosts& model, const Machines& group, Run run,
                   bool alone) {
  const StageMemory memory = MemoryOf(spec, model, group, run, alone);
  if (group.device_bytes <= 0) {
    return static_cast<double>(memory.state + api::NeededBudget(memory.graph));
  }
  return static_cast<double>(memory.state + api::LeastGraphBytes(memory.graph)) / kDeviceShare;
}

}  // namespace swarm::planner
