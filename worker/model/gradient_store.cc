#include "worker/model/gradient_store.h"

#include <ATen/ATen.h>

#include <utility>

namespace swarm::model {
namespace {

constexpr std::size_t kSpareAccumulators = 2;  ///< as many steps as are open at once

at::Tensor ViewOf(const std::vector<at::Tensor>& groups, const Operand& operand) {
  return groups[operand.group]
      .narrow(0, static_cast<std::int64_t>(operand.offset),
              static_cast<std::int64_t>(operand.count()))
      .view(operand.shape);
}

}  // namespace

void GradientStore::Put(const TaskKey& key, MicrobatchGradients gradients) {
  waiting_.insert_or_assign(key, std::move(gradients));
}

Status GradientStore::Fold(const TaskKey& key) {
  auto node = waiting_.extract(key);
  if (node.empty()) {
    return NotFound("fold: no gradients of microbatch " + std::to_string(key.microbatch.value) +
                    " of step " + std::to_string(key.step.value) + " wait here");
  }
  const MicrobatchGradients& gradients = node.mapped();
  const Accumulator& accumulator = Open(key.step);
  for (std::size_t i = 0; i < layout_.operands.size(); ++i) {
    ViewOf(accumulator.sums, layout_.operands[i]).add_(gradients.operands[i]);
  }
  if (layout_.embedding) {
    ViewOf(accumulator.sums, *layout_.embedding)
        .index_add_(0, gradients.tokens, gradients.embedded);
  }
  return {};
}

GradientStore::Accumulator& GradientStore::Open(Step step) {
  const auto found = accumulators_.find(step);
  if (found != accumulators_.end()) return found->second;
  Accumulator accumulator;
  if (!spare_.empty()) {
    accumulator = std::move(spare_.back());
    spare_.pop_back();
    for (at::Tensor& sum : accumulator.sums) sum.zero_();
  } else {
    for (const ParameterGroup& group : layout_.groups) {
      accumulator.sums.push_back(at::zeros({static_cast<std::int64_t>(group.count)},
                                           at::TensorOptions(device_).dtype(at::kFloat)));
    }
  }
  return accumulators_.emplace(step, std::move(accumulator)).first->second;
}

std::span<const float> GradientStore::Sum(Step step, std::uint64_t group) {
  Accumulator& accumulator = Open(step);
  accumulator.host.resize(accumulator.sums.size());
  const at::Tensor& sum = accumulator.sums[group];
  at::Tensor& host = accumulator.host[group];
  if (!host.defined()) {
    host = sum.to(at::kCPU);  // the sum itself where it already is there
  } else if (!host.is_alias_of(sum)) {
    host.copy_(sum);
  }
  return {host.const_data_ptr<float>(), static_cast<std::size_t>(host.numel())};
}

void GradientStore::Release(Step step) {
  std::erase_if(waiting_, [&](const auto& entry) { return entry.first.step == step; });
  auto node = accumulators_.extract(step);
  if (node.empty() || spare_.size() >= kSpareAccumulators) return;
  node.mapped().host.clear();
  spare_.push_back(std::move(node.mapped()));
}

void GradientStore::Clear() {
  waiting_.clear();
  accumulators_.clear();
}

}  // namespace swarm::model
