// Converts a model with boundaries or adapters to a plain one. Pure; torch-free.
#pragma once

#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/checkpoint/tensor.h"

namespace swarm::model {

/// The weights of the plain model that computes the same, float32, under Hugging Face's names: the
/// basis of Subspace is multiplied into the constrained weights, each layer gets a copy of shared
/// weights, and the products of adapters are added to their matrices. `weights` finds the tensors
/// of a checkpoint, of a job with that seed; `boundary` has its layers. Errors: kFailedPrecondition
/// where no such model exists (Bottleneck, Maxout, Anchored); kDataLoss where a weight is missing
/// or has another shape; kInvalidArgument (no model).
Result<std::vector<checkpoint::NamedTensor>> FoldWeights(const api::DecoderConfig& config,
                                                         const api::Boundary& boundary,
                                                         std::uint64_t seed,
                                                         const checkpoint::TensorLookup& weights,
                                                         const api::Lora& lora = {});

}  // namespace swarm::model
