// What a machine must hold to serve a stage. Pure.
#pragma once

#include <cstdint>

#include "api/model/stage_graph.h"
#include "api/swarmjob.h"
#include "planner/fleet.h"
#include "planner/model_costs.h"

namespace swarm::planner {

/// Bytes of the memory where the machine computes: of its device, or else of the host.
struct StageMemory {
  api::StageGraph graph;
  std::uint64_t state = 0;

  /// With so many microbatches between forward and backward.
  double Held(std::uint64_t in_flight) const;
};

/// `alone`: the stage has no other machine. Where the way is to swap and the machine cannot, the
/// state is larger than any memory.
StageMemory MemoryOf(const api::Spec& spec, const ModelCosts& model, const Machines& group, Run run,
                     bool alone);

/// Whether the stage's masters and moments are in the memory of the host, beside a device that has
/// no room for them, or since the job says so (api::ChooseResidency).
bool IsOffloaded(const api::Spec& spec, const ModelCosts& model, const Machines& group, Run run);

/// Microbatches that fit between forward and backward, beside a repair's; the greatest number where
/// there is enough memory.
std::uint64_t InFlightRoom(const StageMemory& memory, const Machines& group);

/// Bytes that a machine needs to serve the stage with the least microbatches in flight.
double LeastMemory(const api::Spec& spec, const ModelCosts& model, const Machines& group, Run run,
                   bool alone);

}  // namespace swarm::planner
