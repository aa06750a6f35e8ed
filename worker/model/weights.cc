#include "worker/model/weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace swarm::model {

Weights::Weights(const Layout& layout, api::Precision precision, at::Device device)
    : layout_(layout) {
  const at::NoGradGuard no_gradients;
  for (const ParameterGroup& group : layout.groups) {
    masters_.push_back(at::zeros({static_cast<std::int64_t>(group.count)}, at::kFloat));
  }
  const auto matrix_type = precision == api::Precision::kBF16 ? at::kBFloat16 : at::kFloat;
  for (const Operand& operand : layout.operands) {
    const auto type = operand.matrix() ? matrix_type : at::kFloat;
    // `to` gives the view itself where nothing is to change, else a copy of its own.
    at::Tensor leaf = MasterView(operand).to(at::TensorOptions(device).dtype(type)).detach();
    operands_.push_back(leaf.set_requires_grad(true));
  }
  if (layout.embedding) embedding_ = MasterView(*layout.embedding).to(device);
}

at::Tensor Weights::MasterView(const Operand& operand) const {
  return masters_[operand.group]
      .narrow(0, static_cast<std::int64_t>(operand.offset),
              static_cast<std::int64_t>(operand.count()))
      .view(operand.shape);
}

std::span<float> Weights::group(std::uint64_t index) {
  at::Tensor& master = masters_[index];
  return {master.mutable_data_ptr<float>(), static_cast<std::size_t>(master.numel())};
}

std::span<const float> Weights::group(std::uint64_t index) const {
  const at::Tensor& master = masters_[index];
  return {master.const_data_ptr<float>(), static_cast<std::size_t>(master.numel())};
}

void Weights::Refresh() {
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const at::Tensor master = MasterView(layout_.operands[i]);
    if (!operands_[i].is_alias_of(master)) operands_[i].copy_(master);
  }
  if (!layout_.embedding) return;
  const at::Tensor table = MasterView(*layout_.embedding);
  if (!embedding_.is_alias_of(table)) embedding_.copy_(table);
}

LayerWeights Weights::layer(std::size_t index) const {
  const LayerOperands& layer = layout_.layers[index];
  return {operands_[layer.attention_norm],   operands_[layer.query_key_value],
          operands_[layer.attention_output], operands_[layer.mlp_norm],
          operands_[layer.gate_up],          operands_[layer.down]};
}

}  // namespace swarm::model
