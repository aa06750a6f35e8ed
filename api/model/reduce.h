// What a sum of gradients sends for its numbers (ReduceCodec).
#pragma once

#include <cstddef>

namespace swarm::api {

/// With Int8, so many numbers share a scale, a float32.
inline constexpr std::size_t kReduceBlock = 256;
/// And so many with Int4.
inline constexpr std::size_t kNibbleBlock = 64;

}  // namespace swarm::api
