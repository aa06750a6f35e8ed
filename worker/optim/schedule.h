// The learning rate of a step. Pure.
#pragma once

#include <cstdint>

#include "api/swarmjob.h"

namespace swarm::optim {

/// The learning rate of `step` (counted from 0).
///
/// During the warm-up it rises linearly: (step + 1) / warmupSteps of optimizer.learningRate. After
/// it, with p = (step - warmupSteps) / (max_steps - warmupSteps) clamped to 1 and f =
/// finalFraction: Constant: 1; Linear: 1 - (1 - f) p; Cosine: f + (1 - f) (1 + cos(pi p)) / 2. So
/// the rate would be f * learningRate at max_steps, one step after the last one.
double LearningRate(std::uint64_t step, const api::Optimizer& optimizer,
                    const api::Schedule& schedule, std::uint64_t max_steps);

}  // namespace swarm::optim
