// The outer step of local training: what replicas have moved in a round moves the weights of the
// job. Nesterov momentum as DiLoCo has it (arXiv 2311.08105). Pure.
#pragma once

#include <span>

namespace swarm::model {

struct OuterRule {
  double learning_rate = 1;
  double momentum = 0;
  double share = 1;  ///< of a replica in the mean: 1 / replicas
};

/// With d = share * moved: velocity becomes momentum * velocity + d, and weights lose learning_rate
/// * (d + momentum * velocity). `moved` is the sum over replicas of base minus local weights. In
/// float32, element by element, so all replicas compute the same bits. Requires spans of one size.
void StepOuter(std::span<const float> moved, const OuterRule& rule, std::span<float> velocity,
               std::span<float> weights);

}  // namespace swarm::model
