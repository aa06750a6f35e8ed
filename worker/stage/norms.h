// The norms that a commit is decided on: the same for a swarm and for the single-process reference.
#pragma once

#include <span>
#include <vector>

#include "worker/model/stage.h"
#include "worker/protocol/messages.h"

namespace swarm::stage {

/// The squared norms of the tensors of stage.groups()[group], whose gradients are `gradient` in the
/// group's flat order.
std::vector<protocol::TensorNorm> ComputeTensorNorms(const model::Stage& stage, std::uint64_t group,
                                                     std::span<const float> gradient);

}  // namespace swarm::stage
