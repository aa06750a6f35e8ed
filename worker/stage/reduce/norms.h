// The norms that a commit is decided on: the same for a swarm and for the single-process reference.
#pragma once

#include <vector>

#include "worker/model/stage.h"
#include "worker/protocol/messages/control.h"

namespace swarm::stage {

/// The squared norms of the tensors that the step's sum of stage.groups()[group] is of. Its reduced
/// `elements` are in the order of stage.SumSlots, of the type and at the exponents of this stage's
/// own contribution. All NaN if that contribution was not finite: then no worker may apply the
/// step. `held`: by tensor of the sum, whether its sum is there; the others' norms are left out
/// where they would be finite. Empty: all are. Computed on so many threads.
std::vector<protocol::TensorNorm> ComputeTensorNorms(const model::Stage& stage, protocol::Step step,
                                                     std::uint64_t group,
                                                     const model::GradientSum& own,
                                                     const Bytes& elements,
                                                     const std::vector<bool>& held = {},
                                                     int threads = 1);

}  // namespace swarm::stage
