// The wave lengths of rotary embeddings. Pure; torch-free.
#pragma once

#include <cstdint>
#include <vector>

#include "api/swarmjob.h"

namespace swarm::model {

/// Radians per position of the pairs (i, i + head_dim / 2): theta^(-2 i / head_dim), slowed down as
/// the type says, so that positions beyond those of pre-training look like earlier ones:
///   - kLinear: all of them, by `factor`;
///   - kDynamic: none within max_position_embeddings, which bounds our sequences;
///   - kYarn (Peng et al. 2023): those with fewer than beta_slow turns in the sequences of
///     pre-training by `factor`, those with more than beta_fast not at all, a ramp between;
///   - kLlama3: the same with low_freq_factor and high_freq_factor turns, and a smoother ramp.
/// The numbers agree with modeling_rope_utils.py of transformers 5.23.0 to float32's rounding.
std::vector<float> RotaryFrequencies(const api::Rope& rope, std::int64_t head_dim);

}  // namespace swarm::model
