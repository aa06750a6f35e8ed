// A named tensor as plain memory: what checkpoints hold and what a stage takes and gives.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace swarm::state {

enum class ElementType : std::uint8_t { kF32, kBF16, kF16, kI64 };

/// Elements in row-major order, little endian. Invariant: data.size() is the product of the shape
/// times the size of an element.
struct NamedTensor {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<std::int64_t> shape;
  Bytes data;
};

/// Finds a tensor by name; kNotFound when it is not there.
using TensorLookup = std::function<Result<NamedTensor>(const std::string& name)>;

}  // namespace swarm::state
