// The digest of a content that comes in pieces, without keeping them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/hash.h"

struct XXH3_state_s;

namespace swarm {

class DigestStream {
 public:
  DigestStream();
  void Add(std::span<const std::byte> piece);
  /// As ComputeDigest of all pieces so far, one after the other.
  Digest Finish() const;

 private:
  std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)> state_;
};

}  // namespace swarm
