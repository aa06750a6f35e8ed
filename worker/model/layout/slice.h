// Which layers a stage executes. Pure; torch-free.
#pragma once

#include <cstdint>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"

namespace swarm::model {

/// The decoder layers [first, first + count) of a stage, and what it has besides.
struct Slice {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool embedding = false;  ///< stage 0: token ids to x_0
  bool head = false;       ///< the last stage: final norm, lm_head, loss
};

/// Cuts the model into contiguous slices of at least one layer.
///
/// The head is a matrix product of vocab_size * hidden_size weights and counts as that fraction of
/// a layer; the embedding is a lookup and counts nothing. The last stage gets the number of layers
/// that makes the most expensive stage cheapest (the larger one where two are equal); the others
/// share the rest as evenly as possible, the first ones get the extra ones. Without a costly head
/// that is the even split.
///
/// If the layers of boundaries are known, and there are enough of them, cuts are some of these,
/// chosen so that the most expensive stage is cheapest. There must be enough where boundaries are a
/// part of the model (api::IsPartOfModel). Errors: kInvalidArgument (no such stage, more stages
/// than layers or than the boundaries allow).
Result<Slice> ComputeSlice(const api::DecoderConfig& config, std::uint64_t stage,
                           std::uint64_t stage_count, const api::Boundary& boundary = {});

/// The layers before which a boundary lies: those that `boundary` names, else the cuts into
/// `stage_count`. Errors: as ComputeSlice; kInvalidArgument (not ascending, or not inside the
/// model).
Result<std::vector<std::uint64_t>> ComputeBoundaryLayers(const api::DecoderConfig& config,
                                                         std::uint64_t stage_count,
                                                         const api::Boundary& boundary);

}  // namespace swarm::model
