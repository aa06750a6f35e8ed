// The weights of one version of a stage: master copies in flat float32 memory of the state, and the
// operands that the computation uses, which are views of them wherever type and device allow it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <vector>

#include "api/swarmjob.h"
#include "worker/model/arithmetic/boundary.h"
#include "worker/model/arithmetic/decoder.h"
#include "worker/model/decoder/state_memory.h"
#include "worker/model/layout/layout.h"

namespace swarm::model {

class Weights {
 public:
  /// Zeros; or `given`, if it has the masters. What is frozen is that of `sharing`, if there is
  /// one. `layout`, `memory`, which has the masters, and `there`, which is the device's, must
  /// outlive this. Before the first Refresh operands that are no views of masters are anything.
  Weights(const Layout& layout, api::Precision precision, at::Device device, StateMemory& memory,
          StateMemory& there, std::span<const StateBlock> given, const Weights* sharing);

  /// The master copies: one a group, and last of what is frozen (Layout::frozen). After writing:
  /// Refresh().
  const std::vector<StateBlock>& masters() const { return masters_; }
  /// The same of masters on the host.
  std::span<float> group(std::uint64_t index);
  std::span<const float> group(std::uint64_t index) const;
  /// Brings the operands up to date with the master copies. Graphs recorded before must not be run
  /// backward afterwards.
  void Refresh();
  /// The same of what is not frozen alone.
  void RefreshTrained();

  /// In the order of Layout::operands: norms' gains in float32, matrices in the type of the
  /// computation. Leaves; those that are not frozen require gradients.
  const std::vector<at::Tensor>& operands() const { return operands_; }
  /// In the order of Layout::tables: float32, without gradient.
  const std::vector<at::Tensor>& tables() const { return tables_; }
  /// Those of operands() that require gradients.
  const std::vector<at::Tensor>& trained() const { return trained_; }
  /// The weights of a layer; the scale of adapters is not theirs to know.
  LayerWeights layer(std::size_t index) const;
  /// The weights of the boundary before a decoder layer, as far as this stage has them.
  BoundaryWeights boundary(std::int64_t before) const;

 private:
  void MakeOperands(api::Precision precision, at::Device device, const Weights* sharing);
  /// Of what is frozen, or of all else.
  void Refresh(bool frozen);
  at::Tensor MasterView(const Operand& operand) const;
  /// The view, if it has that type and is on that device; else memory of its shape.
  at::Tensor ViewOrRoom(const Operand& operand, at::Device device, at::ScalarType type) const;
  void Update(const Operand& operand, at::Tensor& from_master) const;
  /// Undefined where there is no such operand.
  at::Tensor OperandAt(const std::optional<std::size_t>& index) const;

  const Layout& layout_;
  StateMemory &memory_, &there_;
  std::vector<StateBlock> masters_;
  std::vector<at::Tensor> operands_, trained_;
  std::vector<at::Tensor> tables_;
};

}  // namespace swarm::model
