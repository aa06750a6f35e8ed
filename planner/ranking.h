// Which of two plans is better. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "planner/model_costs.h"
#include "planner/search.h"

namespace swarm::planner {

/// What the model costs, by whether its stages are swapped.
class Costs {
 public:
  explicit Costs(api::Spec spec) : costs_{Make(&spec, false), Make(&spec, true)} {}
  const ModelCosts& Of(const api::Spec& spec) const {
    return costs_[spec.pipeline.residency == api::Residency::kSwap ? 1 : 0];
  }

 private:
  static ModelCosts Make(api::Spec* spec, bool swaps) {
    spec->pipeline.residency = swaps ? std::optional(api::Residency::kSwap) : std::nullopt;
    return ModelCosts(*spec);
  }
  const std::array<ModelCosts, 2> costs_;
};

inline double Worth(const Prediction& prediction, Goal goal) {
  return goal == Goal::kTokensPerDollar && prediction.tokens_per_dollar > 0
             ? prediction.tokens_per_dollar
             : prediction.tokens_per_second;
}

inline std::uint64_t MachinesOf(const Plan& plan) {
  std::uint64_t sum = 0;
  for (const StagePrediction& stage : plan.prediction.stages) sum += stage.machines;
  return sum;
}

inline bool IsSwapped(const Plan& plan) {
  return plan.way.spec.pipeline.residency == api::Residency::kSwap;
}

/// The plainer, the less.
inline auto Plainness(const Plan& plan) {
  const api::Spec& spec = plan.way.spec;
  return std::tuple(spec.pipeline.boundary.codec, spec.training.stepMode,
                    spec.training.local.overlap, spec.pipeline.residency, spec.pipeline.stages,
                    MachinesOf(plan));
}

/// What sums and products of a prediction may be off, as a share.
inline constexpr double kRounding = 1e-9;
/// Bytes, where a machine has enough.
inline constexpr double kRoomMax = 1e17;

}  // namespace swarm::planner
