// How many microbatches a worker of a stage has room for. Pure.
#pragma once

#include <cstdint>

#include "api/swarmjob.h"

namespace swarm::api {

/// Bytes of a microbatch in a stage; memory.h has the sources.
struct StageGraph {
  std::uint64_t kept = 0;      ///< between forward and backward (GraphBytes)
  std::uint64_t backward = 0;  ///< what the one backward holds besides (BackwardBytes)
  std::uint64_t boundary = 0;  ///< its activations at a boundary, as float32
};

/// Of a stage with so many layers; with `head` also what the loss keeps. Requires a valid job with
/// a model that is read.
StageGraph GraphOf(const Spec& spec, std::uint64_t layers, bool head);

/// The graphs that a worker must be able to hold: one microbatch in flight, one more of a repair,
/// and one backward.
std::uint64_t LeastGraphBytes(const StageGraph& graph);

/// The least memory beside the state: the share of graphs, and what waits and travels, have room.
std::uint64_t NeededBudget(const StageGraph& graph);

/// The microbatches that may be between forward and backward where so many bytes are for graphs:
/// so that a repair's fits beside them. At least one.
std::uint64_t InFlightRoom(const StageGraph& graph, std::uint64_t bytes);

}  // namespace swarm::api
