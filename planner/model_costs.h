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

struct Parameters {
  std::uint64_t trained = 0;
  std::uint64_t frozen = 0;  ///< by adapters
  std::uint64_t all() const { return trained + frozen; }
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
  /// Of them, the head's.
  double HeadFlops() const { return head_; }
  /// The part of Flops that is the forward; of a layer.
  double ForwardShare() const { return forward_share_; }
  /// Of a stage: the first has the embedding, the last the head. Tied ones are in both stages, and
  /// once in a stage that is both. With adapters, only these are trained.
  Parameters ParametersOf(Run run) const;
  const Parameters& layer() const { return layer_; }
  /// The embedding, or the head without its norm.
  const Parameters& table() const { return table_; }

 private:
  std::vector<double> prefix_;  // work of the layers before
  double head_ = 0;
  double forward_share_ = 1.0 / 3;
  Parameters layer_, table_, norm_;
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
