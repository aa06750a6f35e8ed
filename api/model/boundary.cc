#include "api/model/boundary.h"

namespace swarm::api {

bool IsLearned(BoundaryCodec codec) {
  switch (codec) {
    case BoundaryCodec::kNone:
    case BoundaryCodec::kBF16:
    case BoundaryCodec::kInt8:
    case BoundaryCodec::kInt8Dynamic:
      return false;
    case BoundaryCodec::kBottleneck:
    case BoundaryCodec::kMaxout:
    case BoundaryCodec::kSubspace:
    case BoundaryCodec::kAnchored:
      return true;
  }
  return false;
}

bool IsPartOfModel(const Boundary& boundary) {
  return IsLearned(boundary.codec) || boundary.sharedLayers;
}

bool HasTurningBasis(const Boundary& boundary) {
  const bool boundaries = boundary.layers && !boundary.layers->empty();
  return boundary.codec == BoundaryCodec::kSubspace && boundary.refreshSteps > 0 &&
         (boundaries || boundary.constrainLast);
}

std::int64_t CoefficientsPerToken(const Boundary& boundary, std::int64_t hidden_size) {
  switch (boundary.codec) {
    case BoundaryCodec::kBottleneck:
    case BoundaryCodec::kMaxout:
      return hidden_size / static_cast<std::int64_t>(boundary.factor);
    case BoundaryCodec::kSubspace:
    case BoundaryCodec::kAnchored:
      return static_cast<std::int64_t>(boundary.rank);
    default:
      return hidden_size;
  }
}

NumberCodec ForwardNumbers(const Boundary& boundary) {
  switch (boundary.codec) {
    case BoundaryCodec::kNone:
      return NumberCodec::kNone;
    case BoundaryCodec::kBF16:
      return NumberCodec::kBF16;
    case BoundaryCodec::kInt8:
      return NumberCodec::kInt8;
    case BoundaryCodec::kInt8Dynamic:
      return NumberCodec::kInt8Dynamic;
    default:
      return boundary.coefficients;
  }
}

NumberCodec BackwardNumbers(const Boundary& boundary) {
  return boundary.gradientCodec.value_or(ForwardNumbers(boundary));
}

}  // namespace swarm::api
