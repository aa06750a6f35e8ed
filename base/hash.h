// Checksums and digests. The room of ISA-L (CRC32C) and xxHash (digests).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"

namespace swarm {

/// CRC-32C (Castagnoli) of `bytes`; pass the previous value to go on over several pieces.
std::uint32_t Crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

/// 128 bits that tell two contents apart (not against an attacker who chooses them).
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Digest&) const = default;
  /// 32 lower-case hexadecimal digits.
  std::string Hex() const;
};

/// XXH3-128 of `bytes`.
Digest ComputeDigest(std::span<const std::byte> bytes);
/// The same of `pieces`, one after the other.
Digest ComputeDigest(std::span<const Bytes> pieces);

}  // namespace swarm
