#include "worker/model/decoder/weights.h"

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
    const auto type = operand.matrix() && !operand.wide ? matrix_type : at::kFloat;
    // `to` returns the view itself where nothing has to change, else a copy.
    at::Tensor leaf = MasterView(operand).to(at::TensorOptions(device).dtype(type)).detach();
    operands_.push_back(leaf.set_requires_grad(true));
  }
  for (const Operand& table : layout.tables) tables_.push_back(MasterView(table).to(device));
}

at::Tensor Weights::MasterView(const Operand& operand) const {
  return masters_[operand.group]
      .narrow(0, static_cast<std::int64_t>(operand.offset),
              static_cast<std::int64_t>(operand.count()))
      .view(operand.shape);
}

at::Tensor Weights::OperandAt(const std::optional<std::size_t>& index) const {
  return index ? operands_[*index] : at::Tensor();
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
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    const at::Tensor master = MasterView(layout_.tables[i]);
    if (!tables_[i].is_alias_of(master)) tables_[i].copy_(master);
  }
}

LayerWeights Weights::layer(std::size_t index) const {
  const LayerOperands& layer = layout_.layers[index];
  return {operands_[layer.attention_norm],   operands_[layer.query_key_value],
          OperandAt(layer.input_bias),       OperandAt(layer.head_norms),
          operands_[layer.attention_output], operands_[layer.mlp_norm],
          operands_[layer.gate_up],          operands_[layer.down]};
}

BoundaryWeights Weights::boundary(std::int64_t before) const {
  const auto found = layout_.boundaries.find(before);
  if (found == layout_.boundaries.end()) return {};
  const BoundaryOperands& halves = found->second;
  return {OperandAt(halves.norm), OperandAt(halves.encoder), OperandAt(halves.decoder),
          OperandAt(halves.table_factor), OperandAt(halves.context)};
}

}  // namespace swarm::model
