// Properties that follow from the fields of a Boundary. Pure.
#pragma once

#include <cstdint>

#include "api/swarmjob.h"

namespace swarm::api {

/// Whether the codec has parameters of its own, or changes those of the layers (Subspace).
bool IsLearned(BoundaryCodec codec);

/// Whether the boundaries are a part of the model. Then the model can be cut only at a boundary,
/// and checkpoints contain the description of the boundaries.
bool IsPartOfModel(const Boundary& boundary);

/// Whether training turns the subspace, so that all stages need the same basis. Requires that the
/// layers are known.
bool HasTurningBasis(const Boundary& boundary);

/// How many numbers cross a boundary per token, in a model of this width.
std::int64_t CoefficientsPerToken(const Boundary& boundary, std::int64_t hidden_size);

/// How those numbers are encoded, and how their gradients are.
NumberCodec ForwardNumbers(const Boundary& boundary);
NumberCodec BackwardNumbers(const Boundary& boundary);

}  // namespace swarm::api
