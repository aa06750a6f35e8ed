// Where the parameters of a stage lie in its flat buffers. Pure; torch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/model/slice.h"
#include "worker/model/stage.h"

namespace swarm::model {

/// A matrix or vector that the computation uses as one operand: one parameter, or neighbours in the
/// flat order that are multiplied together (query, key and value; gate and up).
struct Operand {
  std::uint64_t group = 0;
  std::uint64_t offset = 0;  ///< first element in the group
  std::vector<std::int64_t> shape;
  std::uint64_t count() const;
  bool matrix() const { return shape.size() > 1; }
};

/// The operands of a decoder layer, as indices into Layout::operands.
struct LayerOperands {
  std::size_t attention_norm = 0;
  std::size_t query_key_value = 0;  ///< [(H + 2 K) head_dim, hidden]
  std::size_t attention_output = 0;
  std::size_t mlp_norm = 0;
  std::size_t gate_up = 0;  ///< [2 intermediate, hidden]
  std::size_t down = 0;
};

/// The parameters of one stage. Group 0 holds the stage's own; with a tied head, the first and the
/// last stage (which may be the same) have the embedding alone in group 1, whose job-wide index is
/// stage_count.
struct Layout {
  Slice slice;
  std::vector<ParameterSlot> slots;  ///< by group, then by offset
  std::vector<ParameterGroup> groups;
  std::vector<Operand> operands;  ///< without the embedding table: it is looked up, not multiplied
  std::vector<LayerOperands> layers;
  std::optional<Operand> embedding;  ///< [vocab, hidden]; stage 0
  std::size_t final_norm = 0;        ///< last stage
  std::size_t head = 0;              ///< last stage; [vocab, hidden]
};

/// Errors: kInvalidArgument (a configuration that is no model, or cannot be cut so).
Result<Layout> ComputeLayout(const api::LlamaConfig& config, std::uint64_t stage,
                             std::uint64_t stage_count);

}  // namespace swarm::model
