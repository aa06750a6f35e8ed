// The start of adapters beside the weights of a pretrained model. Torch-free.
#pragma once

#include <cstdint>
#include <vector>

#include "api/swarmjob.h"
#include "worker/checkpoint/tensor.h"
#include "worker/model/layout/parameters.h"

namespace swarm::model {

/// Finds the `adapters` as a job with this seed starts with them, A at random and B zero, and all
/// other tensors as `weights` does.
checkpoint::TensorLookup WithNewAdapters(checkpoint::TensorLookup weights,
                                         const api::DecoderConfig& config, std::uint64_t seed,
                                         std::vector<ParameterSlot> adapters);

}  // namespace swarm::model
