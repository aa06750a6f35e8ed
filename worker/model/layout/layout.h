// Where the parameters of a stage lie in its flat buffers. Pure; torch-free.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/model/layout/parameters.h"
#include "worker/model/layout/slice.h"

namespace swarm::model {

/// A matrix or vector that the computation uses as one operand: one parameter, or neighbours in the
/// flat order that are multiplied together (query, key and value; gate and up).
struct Operand {
  std::uint64_t group = 0;
  std::uint64_t offset = 0;  ///< first element in the group
  std::vector<std::int64_t> shape;
  bool wide = false;    ///< a matrix that is float32 in any precision
  bool frozen = false;  ///< it is not trained
  std::uint64_t count() const;
  bool matrix() const { return shape.size() > 1; }
};

/// A [r, columns] and B [rows, r] of an adapter, as indices into Layout::operands.
struct AdapterOperands {
  std::size_t down = 0, up = 0;
};

/// The operands of a decoder layer, as indices into Layout::operands. With api::Boundary's
/// sharedLayers, layers may have the same ones.
struct LayerOperands {
  std::size_t attention_norm = 0;
  std::size_t query_key_value = 0;        ///< [(H + 2 K) head_dim, hidden]
  std::optional<std::size_t> input_bias;  ///< [(H + 2 K) head_dim]
  std::optional<std::size_t> head_norms;  ///< [2 head_dim]: of queries, of keys
  std::size_t attention_output = 0;       ///< [hidden, H head_dim]; constrained: [rank, H head_dim]
  std::size_t mlp_norm = 0;
  std::size_t gate_up = 0;   ///< [2 intermediate, hidden]
  std::size_t down = 0;      ///< [hidden, intermediate]; constrained: [rank, intermediate]
  bool constrained = false;  ///< its additions to the residual lie in the subspace
  std::optional<std::size_t> attention_post_norm, mlp_post_norm;
  std::array<std::optional<AdapterOperands>, 7> adapters;  ///< in the order of api::Lora's targets
};

/// The parameters of a stage's halves of a boundary, c numbers per token, as indices into the
/// operands or tables of Layout.
struct BoundaryOperands {
  std::optional<std::size_t> norm;          ///< sender; [hidden]
  std::optional<std::size_t> encoder;       ///< sender; [c, hidden]
  std::optional<std::size_t> decoder;       ///< receiver; [hidden, c]
  std::optional<std::size_t> table;         ///< receiver; [vocab, hidden or table rank]
  std::optional<std::size_t> table_factor;  ///< receiver; [hidden, table rank]
  std::optional<std::size_t> context;       ///< receiver; [hidden, (anchor tokens - 1) row width]
};

/// The parameters of one stage. Group 0 holds the stage's own; with a tied head, the first and the
/// last stage (which may be the same) have only the embedding in group 1, whose job-wide index is
/// stage_count. Where training turns the basis of Subspace, all stages have it, alone, in one more
/// group, the last of the job.
///
/// Beside Hugging Face's names: "boundary.L.norm.weight", ".encoder.weight", ".decoder.weight",
/// ".table.weight", ".table_factor.weight", ".context.weight" of the boundary before layer L;
/// "NAME.coefficients" for a constrained weight NAME = (basis) (coefficients), and for the
/// embedding, whose coefficients [vocab, rank] are its trained part.
///
/// With adapters, "NAME.lora_A.weight" and "NAME.lora_B.weight" of a matrix NAME.weight, they are
/// all that is trained: group 0 has them, there is no other, and the model is frozen.
struct Layout {
  Slice slice;
  std::vector<ParameterSlot> slots;  ///< by group, then by offset
  std::vector<ParameterGroup> groups;
  std::vector<ParameterSlot> frozen;  ///< by offset in a buffer of their own; no group sums them
  std::uint64_t frozen_count = 0;     ///< elements
  std::vector<Operand> operands;
  std::vector<Operand> tables;  ///< [vocab, n]: their rows are looked up, by the same token ids
  std::vector<LayerOperands> layers;
  /// By the decoder layer behind the boundary; includes the boundaries at the ends of the slice.
  std::map<std::int64_t, BoundaryOperands> boundaries;
  std::size_t embedding = 0;   ///< stage 0; of tables
  std::size_t final_norm = 0;  ///< last stage
  std::size_t head = 0;        ///< last stage; as the embedding, which it may be: [vocab, hidden]
  std::optional<std::size_t> basis;    ///< Subspace with refreshSteps: of operands; [hidden, rank]
  std::int64_t last_boundary = 0;      ///< the layer before which it lies; 0: there is none
  bool constrained_embedding = false;  ///< embedding and tied head are coefficients [vocab, rank]
  /// Whether a sender's half of a boundary is here.
  bool sends() const { return !boundaries.empty() && boundaries.rbegin()->first > slice.first; }
};

/// Errors: kInvalidArgument (a configuration that is no model, or cannot be cut so).
Result<Layout> ComputeParameterLayout(const api::DecoderConfig& config, std::uint64_t stage,
                                      std::uint64_t stage_count, const api::Boundary& boundary = {},
                                      const api::Lora& lora = {});

/// The same of a part of a stage without boundaries inside it: its groups have the indices of the
/// stage's. A part may have the embedding or the head alone. Requires a slice of the stage's.
Result<Layout> ComputePartLayout(const api::DecoderConfig& config, std::uint64_t stage,
                                 std::uint64_t stage_count, const Slice& part,
                                 const api::Lora& lora = {});

}  // namespace swarm::model
