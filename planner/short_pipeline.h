// How fast a pipeline is whose workers have room for few microbatches. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace swarm::planner {

/// A stage, as its replicas are on average.
struct ShortStage {
  std::uint64_t replicas = 1;
  double forward = 0, backward = 0;  ///< seconds of a device
  /// Seconds of a connection, to the next stage and to the one before; and those that the lines of
  /// both ends are taken.
  double transfer = 0, back_transfer = 0;
  double line = 0, back_line = 0;
  double way = 0, back_way = 0;  ///< behind it, until the microbatch is there
};

/// Microbatches a second with at most `in_flight` in each worker, played until it is steady:
/// devices prefer backwards and do one thing at a time, connections and lines carry one microbatch
/// after the other.
double ShortPipelineRate(const std::vector<ShortStage>& stages, std::uint64_t in_flight);

}  // namespace swarm::planner
