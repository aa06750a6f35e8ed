#include "worker/model/decoder/weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "worker/model/arithmetic/half.h"

namespace swarm::model {

Weights::Weights(const Layout& layout, api::Precision precision, at::Device device,
                 const Weights* sharing)
    : layout_(layout) {
  const at::NoGradGuard no_gradients;
  for (const ParameterGroup& group : layout.groups) {
    masters_.push_back(at::zeros({static_cast<std::int64_t>(group.count)}, at::kFloat));
  }
  masters_.push_back(sharing != nullptr
                         ? sharing->masters_.back()
                         : at::zeros({static_cast<std::int64_t>(layout.frozen_count)}, at::kFloat));
  const at::ScalarType matrix_type = MatrixType(precision);
  for (std::size_t i = 0; i < layout.operands.size(); ++i) {
    const Operand& operand = layout.operands[i];
    if (operand.frozen && sharing != nullptr) {
      operands_.push_back(sharing->operands_[i]);
      continue;
    }
    const auto type = operand.matrix() && !operand.wide ? matrix_type : at::kFloat;
    // `to` returns the view itself where nothing has to change, else a copy.
    at::Tensor leaf = MasterView(operand).to(at::TensorOptions(device).dtype(type)).detach();
    operands_.push_back(leaf.set_requires_grad(!operand.frozen));
    // Binary16 has no room for gradients (half.h).
    if (type == at::kHalf) leaf.set_grad_dtype(at::kFloat);
    if (!operand.frozen) trained_.push_back(operands_.back());
  }
  for (std::size_t i = 0; i < layout.tables.size(); ++i) {
    const Operand& table = layout.tables[i];
    tables_.push_back(table.frozen && sharing != nullptr ? sharing->tables_[i]
                                                         : MasterView(table).to(device));
  }
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

void Weights::Update(const Operand& operand, at::Tensor& from_master) const {
  const at::Tensor master = MasterView(operand);
  if (!from_master.is_alias_of(master)) from_master.copy_(master);
}

void Weights::Refresh() {
  RefreshTrained();
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (layout_.operands[i].frozen) Update(layout_.operands[i], operands_[i]);
  }
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    if (layout_.tables[i].frozen) Update(layout_.tables[i], tables_[i]);
  }
}

void Weights::RefreshTrained() {
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (!layout_.operands[i].frozen) Update(layout_.operands[i], operands_[i]);
  }
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    if (!layout_.tables[i].frozen) Update(layout_.tables[i], tables_[i]);
  }
}

LayerWeights Weights::layer(std::size_t index) const {
  const LayerOperands& layer = layout_.layers[index];
  LayerWeights weights{.attention_norm = operands_[layer.attention_norm],
                       .query_key_value = operands_[layer.query_key_value],
                       .input_bias = OperandAt(layer.input_bias),
                       .head_norms = OperandAt(layer.head_norms),
                       .attention_output = operands_[layer.attention_output],
                       .mlp_norm = operands_[layer.mlp_norm],
                       .gate_up = operands_[layer.gate_up],
                       .down = operands_[layer.down],
                       .attention_post_norm = OperandAt(layer.attention_post_norm),
                       .mlp_post_norm = OperandAt(layer.mlp_post_norm),
                       .adapters = {}};
  for (std::size_t i = 0; i < layer.adapters.size(); ++i) {
    if (!layer.adapters[i]) continue;
    weights.adapters[i] = {operands_[layer.adapters[i]->down], operands_[layer.adapters[i]->up]};
  }
  return weights;
}

BoundaryWeights Weights::boundary(std::int64_t before) const {
  const auto found = layout_.boundaries.find(before);
  if (found == layout_.boundaries.end()) return {};
  const BoundaryOperands& halves = found->second;
  return {OperandAt(halves.norm), OperandAt(halves.encoder), OperandAt(halves.decoder),
          OperandAt(halves.table_factor), OperandAt(halves.context)};
}

}  // namespace swarm::model
