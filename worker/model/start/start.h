// The values of parameters at the start of a job: functions of (seed, name), or of the embedding's
// start. Pure; torch-free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "api/swarmjob.h"
#include "worker/model/layout/parameters.h"

namespace swarm::model {

/// Fills `values` with the start of a parameter.
void FillStart(std::uint64_t seed, const api::DecoderConfig& config, const ParameterSlot& slot,
               std::span<float> values);

/// The directions that boundaries of rank k send: a basis [hidden_size, k].
std::vector<float> StartBasis(std::uint64_t seed, std::int64_t hidden_size, std::int64_t rank);

/// The embedding [vocab_size, hidden_size].
std::vector<float> StartEmbedding(std::uint64_t seed, const api::DecoderConfig& config);

}  // namespace swarm::model
