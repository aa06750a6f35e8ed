// The norms that a commit is decided on: the same for a swarm and for the single-process reference.
#pragma once

#include <vector>

#include "worker/model/stage.h"
#include "worker/protocol/messages/control.h"

namespace swarm::stage {

/// The squared norms of the tensors of stage.groups()[group], whose reduced sums are `elements` in
/// the group's flat order, of the type and at the exponents of this stage's own contribution. All
/// NaN if that contribution was not finite: then no worker may apply the step. `held`: by tensor of
/// the group, whether its sum is there; the others' norms are left out where they would be finite.
/// Empty: all are. Computed on so many threads.
std::vector<protocol::TensorNorm> ComputeTensorNorms(const model::Stage& stage, std::uint64_t group,
                                                     const model::GradientSum& own,
                                                     const Bytes& elements,
                                                     const std::vector<bool>& held = {},
                                                     int threads = 1);

}  // namespace swarm::stage
