// What follows from the fields of a Boundary. Pure.
#pragma once

#include <cstdint>

#include "api/swarmjob.h"

namespace swarm::api {

/// Whether the codec has parameters, or asks for others in the layers (Subspace).
bool IsLearned(BoundaryCodec codec);

/// Whether the boundaries decide what the model is. Then it can be cut only where one lies, and
/// checkpoints keep the description.
bool IsPartOfModel(const Boundary& boundary);

/// Whether the subspace is turned in training, so that all stages have a basis in common. Requires
/// that the layers are known.
bool HasTurningBasis(const Boundary& boundary);

/// Numbers that cross for a token, of a model of that width.
std::int64_t CoefficientsPerToken(const Boundary& boundary, std::int64_t hidden_size);

/// What those numbers are sent in, and their gradients.
NumberCodec ForwardNumbers(const Boundary& boundary);
NumberCodec BackwardNumbers(const Boundary& boundary);

}  // namespace swarm::api
