#include "worker/model/decoder/weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "worker/model/arithmetic/half.h"

namespace swarm::model {

Weights::Weights(const Layout& layout, api::Precision precision, at::Device device,
                 StateMemory& memory, StateMemory& there, std::span<const StateBlock> given,
                 const Weights* sharing)
    : layout_(layout), memory_(memory), there_(there) {
  const at::NoGradGuard no_gradients;
  const auto zeros = [&](std::uint64_t count) {
    return memory.Zeros(static_cast<std::int64_t>(count), at::kFloat, StateMemory::Term::kLong);
  };
  masters_.assign(given.begin(), given.end());
  if (given.empty()) {
    for (const ParameterGroup& group : layout.groups) masters_.push_back(zeros(group.count));
    masters_.push_back(sharing != nullptr ? sharing->masters_.back() : zeros(layout.frozen_count));
  }
  memory.Compute({.reads = masters_, .writes = {}},
                 [&] { MakeOperands(precision, device, sharing); });
}

void Weights::MakeOperands(api::Precision precision, at::Device device, const Weights* sharing) {
  const Layout& layout = layout_;
  const at::ScalarType matrix_type = MatrixType(precision);
  for (std::size_t i = 0; i < layout.operands.size(); ++i) {
    const Operand& operand = layout.operands[i];
    if (operand.frozen && sharing != nullptr) {
      operands_.push_back(sharing->operands_[i]);
      continue;
    }
    const auto type = operand.matrix() && !operand.wide ? matrix_type : at::kFloat;
    const at::Tensor leaf = ViewOrRoom(operand, device, type).detach();
    operands_.push_back(leaf.set_requires_grad(!operand.frozen));
    // Binary16 has no room for gradients (half.h).
    if (type == at::kHalf) leaf.set_grad_dtype(at::kFloat);
    if (!operand.frozen) trained_.push_back(operands_.back());
  }
  for (std::size_t i = 0; i < layout.tables.size(); ++i) {
    const Operand& table = layout.tables[i];
    tables_.push_back(table.frozen && sharing != nullptr ? sharing->tables_[i]
                                                         : ViewOrRoom(table, device, at::kFloat));
  }
}

at::Tensor Weights::MasterView(const Operand& operand) const {
  return masters_[operand.group]
      .numbers
      .narrow(0, static_cast<std::int64_t>(operand.offset),
              static_cast<std::int64_t>(operand.count()))
      .view(operand.shape);
}

at::Tensor Weights::ViewOrRoom(const Operand& operand, at::Device device,
                               at::ScalarType type) const {
  const at::Tensor master = MasterView(operand);
  if (master.scalar_type() == type && master.device() == device) return master;
  return at::empty(operand.shape, at::TensorOptions(device).dtype(type));
}

at::Tensor Weights::OperandAt(const std::optional<std::size_t>& index) const {
  return index ? operands_[*index] : at::Tensor();
}

std::span<float> Weights::group(std::uint64_t index) {
  const StateBlock& master = masters_[index];
  return {master.floats(), static_cast<std::size_t>(master.numbers.numel())};
}

std::span<const float> Weights::group(std::uint64_t index) const {
  const StateBlock& master = masters_[index];
  return {master.floats(), static_cast<std::size_t>(master.numbers.numel())};
}

void Weights::Update(const Operand& operand, at::Tensor& from_master) const {
  const at::Tensor master = MasterView(operand);
  if (from_master.is_alias_of(master)) return;
  if (&there_ == &memory_) {
    from_master.copy_(master);
    return;
  }
  // Of a state on the host the operands are elsewhere: numbers cross beside the computation.
  const at::Tensor flat = from_master.detach().view({-1});
  const Bytes numbers = Bytes::Wrap(master.const_data_ptr(), master.nbytes(), nullptr);
  const Status crossed =
      there_.Bring(numbers, at::kFloat, {}, [&](std::int64_t first, const at::Tensor& some) {
        flat.narrow(0, first, some.numel()).copy_(some);
      });
  TORCH_CHECK(crossed.ok(), crossed.message());
}

void Weights::Refresh() {
  Refresh(/*frozen=*/false);
  Refresh(/*frozen=*/true);
}

void Weights::RefreshTrained() { Refresh(/*frozen=*/false); }

void Weights::Refresh(bool frozen) {
  const at::NoGradGuard no_gradients;
  memory_.Compute({.reads = masters_, .writes = {}}, [&] {
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      if (layout_.operands[i].frozen == frozen) Update(layout_.operands[i], operands_[i]);
    }
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      if (layout_.tables[i].frozen == frozen) Update(layout_.tables[i], tables_[i]);
    }
  });
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
