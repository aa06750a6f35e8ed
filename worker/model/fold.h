// A model with boundaries as a plain one. Pure; torch-free.
#pragma once

#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/checkpoint/tensor.h"

namespace swarm::model {

/// The weights of the plain model that computes the same, float32, under Hugging Face's names: the
/// basis of Subspace multiplied into what is constrained, and a copy of shared weights for each
/// layer. `weights` gives what a checkpoint has, of a job with that seed; `boundary` has its
/// layers. Errors: kFailedPrecondition where there is no such model (Bottleneck, Maxout, Anchored);
/// kDataLoss where a weight is missing or has another shape; kInvalidArgument (no model).
Result<std::vector<checkpoint::NamedTensor>> FoldWeights(const api::LlamaConfig& config,
                                                         const api::Boundary& boundary,
                                                         std::uint64_t seed,
                                                         const checkpoint::TensorLookup& weights);

}  // namespace swarm::model
