// XXH3-128 of a long content in parts, for who computes them beside each other: a digest is that of
// ComputeDigest (hash.h). A content is cut into *blocks* of 1 KiB, of which each adds to eight
// accumulators what depends on it alone; the accumulators are scrambled behind every block but the
// last. https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, "XXH3 large inputs".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash.h"

namespace swarm {

inline constexpr std::size_t kDigestBlock = 1024;
inline constexpr std::size_t kDigestLanes = 8;
inline constexpr std::uint64_t kDigestScramble = 0x9E3779B1;  ///< XXH_PRIME32_1

/// What contents are mixed with: numbers of the algorithm.
struct DigestKeys {
  std::array<std::uint64_t, kDigestLanes> start;  ///< of the accumulators
  /// Of lane i in stripe n of a block: words[n + i]. Of its scramble: words[16 + i].
  std::array<std::uint64_t, 24> words;
  std::array<std::uint64_t, kDigestLanes> last;  ///< of lane i in the last stripe of the content
};
DigestKeys MakeDigestKeys();

/// The digest of a content of `size` bytes with these accumulators behind its last block. Requires
/// a size that is a multiple of a block.
Digest FinishDigest(std::span<const std::uint64_t, kDigestLanes> accumulators, std::uint64_t size);

}  // namespace swarm
