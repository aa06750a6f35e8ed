#include "worker/model/local/outer.h"

#include "base/status.h"

namespace swarm::model {

void StepOuter(std::span<const float> moved, const OuterRule& rule, std::span<float> velocity,
               std::span<float> weights) {
  SWARM_CHECK(moved.size() == weights.size() && velocity.size() == weights.size(),
              "an outer step of other weights");
  const auto rate = static_cast<float>(rule.learning_rate);
  const auto momentum = static_cast<float>(rule.momentum);
  const auto share = static_cast<float>(rule.share);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float d = share * moved[i];
    velocity[i] = momentum * velocity[i] + d;
    weights[i] -= rate * (d + momentum * velocity[i]);
  }
}

}  // namespace swarm::model
