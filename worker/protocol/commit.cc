#include "worker/protocol/commit.h"

#include <algorithm>
#include <cmath>

namespace swarm::protocol {

double ComputeGlobalNorm(const std::map<std::string, double>& squared_norms) {
  double sum = 0;
  for (const auto& [tensor, squared] : squared_norms) sum += squared;
  return std::sqrt(sum);
}

double ComputeClip(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

double ComputeLoss(std::span<const double> loss_per_microbatch) {
  double sum = 0;
  for (const double loss : loss_per_microbatch) sum += loss;
  return sum / static_cast<double>(loss_per_microbatch.size());
}

CommitRecord DecideCommit(const CommitInputs& inputs) {
  CommitRecord record{.generation = inputs.generation, .step = inputs.step};
  std::map<std::string, double> squared;
  for (const GroupReport& group : inputs.groups) {
    record.groups.push_back(group.result);
    for (const TensorNorm& norm : group.norms) squared[norm.tensor] = norm.squared;
  }
  record.loss = ComputeLoss(inputs.losses) / inputs.counted_part;
  record.grad_norm = ComputeGlobalNorm(squared) / inputs.counted_part;
  record.learning_rate = inputs.learning_rate;
  record.skip = !std::isfinite(record.grad_norm) || !std::isfinite(record.loss);
  const double clip = ComputeClip(record.grad_norm, inputs.max_grad_norm) / inputs.counted_part;
  record.clip = record.skip ? 1.0 : clip;
  return record;
}

}  // namespace swarm::protocol
