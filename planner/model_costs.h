// What the layers of a model cost: work, parameters, bytes. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "api/swarmjob.h"

namespace swarm::planner {

/// Layers [first, first + count) of a model; a stage's.
struct Run {
  std::uint64_t first = 0, count = 0;
  bool operator==(const Run&) const = default;
};

class ModelCosts {
 public:
  /// Requires a valid job with a model that is read. `spec.training.sequenceLength` and
  /// `spec.pipeline.recompute` count, and Residency::kSwap, which computes every forward again.
  explicit ModelCosts(const api::Spec& spec);

  std::uint64_t layers() const { return prefix_.size() - 1; }
  /// Operations on a token, forward and backward, of a stage. The run that ends with the last layer
  /// has the head too; the embedding is looked up, and is no work.
  double Flops(Run run) const;
  /// The part of Flops that is the forward.
  double ForwardShare() const { return forward_share_; }
  /// Of a stage: the first has the embedding, the last the head. Tied ones are in both stages, and
  /// once in a stage that is both.
  std::uint64_t Parameters(Run run) const;
  std::uint64_t LayerParameters() const { return layer_parameters_; }
  /// Of the embedding, and of the head without its norm.
  std::uint64_t TableParameters() const { return table_parameters_; }

 private:
  std::vector<double> prefix_;  // work of the layers before
  double head_ = 0;
  double forward_share_ = 1.0 / 3;
  std::uint64_t layer_parameters_ = 0, table_parameters_ = 0, width_ = 0;
  bool tied_ = false;
};

/// Bytes of a microbatch at a boundary, as the codec sends it, forward and backward.
struct BoundaryTraffic {
  double forward = 0, backward = 0;
};
BoundaryTraffic TrafficOf(const api::Boundary& boundary, std::uint64_t hidden_size,
                          std::uint64_t tokens);

/// Bytes of a parameter in a contribution to a sum; where sums are of one fragment after the other,
/// on average.
double ReduceBytes(const api::Training& training);

}  // namespace swarm::planner
