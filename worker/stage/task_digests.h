// Digests of what tasks take and give, for audits (docs/protocol.md, rule 33). Pure.
#pragma once

#include <bit>
#include <cstdint>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/rng.h"
#include "worker/model/stage.h"
#include "worker/protocol/messages/data.h"

namespace swarm::stage {

inline std::uint64_t DigestOfBytes(const Bytes& bytes) { return ComputeDigest(bytes.span()).low; }

/// What a forward takes: x_s and the tokens.
inline std::uint64_t InputDigest(const protocol::Forward& frame, const Bytes& boundary) {
  return MixAll(DigestOfBytes(frame.tokens), DigestOfBytes(boundary));
}
inline std::uint64_t OutputDigest(const model::ForwardResult& result) {
  return MixAll(DigestOfBytes(result.boundary), std::bit_cast<std::uint64_t>(result.loss));
}
inline std::uint64_t OutputDigest(const model::BackwardResult& result) {
  return MixAll(DigestOfBytes(result.gradient), result.gradients);
}

/// The same gradient, wrong by a bit of one of its numbers; empty if it is.
inline Bytes Corrupted(const Bytes& gradient) {
  if (gradient.empty()) return gradient;
  return Bytes::Make(gradient.size(), [&](std::byte* to) {
    std::memcpy(to, gradient.data(), gradient.size());
    to[gradient.size() / 2] ^= std::byte{0x10};
  });
}

}  // namespace swarm::stage
