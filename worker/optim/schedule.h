// The learning rate of a step. Pure.
#pragma once

#include <cstdint>

#include "api/swarmjob.h"

namespace swarm::optim {

/// The learning rate of `step` (counted from 0).
///
/// During the warm-up it rises linearly: (step + 1) / warmupSteps of optimizer.learningRate. After
/// it, with p = (step - warmupSteps) / (max_steps - warmupSteps) clamped to 1 and f =
/// finalFraction: Constant: 1; Linear: 1 - (1 - f) p; Cosine: f + (1 - f) (1 + cos(pi p)) / 2; WSD:
/// 1, and in the last decaySteps, with p counted from where they begin, as Linear, as Cosine, or 1 -
/// (1 - f) sqrt(p). So the rate would be f * learningRate at max_steps, one step after the last one.
/// InverseSquareRoot: sqrt(w / (w + step - warmupSteps)), where w is warmupSteps, or 10,000 without
/// a warm-up.
double LearningRate(std::uint64_t step, const api::Optimizer& optimizer,
                    const api::Schedule& schedule, std::uint64_t max_steps);

}  // namespace swarm::optim
