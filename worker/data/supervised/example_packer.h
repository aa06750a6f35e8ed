// Examples to sequences: each in one piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/bytes.h"

namespace swarm::data {

/// Puts examples into sequences of `length` tokens, and fills up with tokens that are not learned.
/// An example goes where it leaves the least room, among the kOpen sequences that are not full yet;
/// so what comes out is a function of the examples in their order.
class ExamplePacker {
 public:
  explicit ExamplePacker(std::size_t length) : length_(length) {}

  /// Tokens as worker/token.h writes them; at most `length`, at least one.
  void Add(const std::vector<std::int32_t>& example);
  /// The sequences, one after the other, in the order in which they were filled.
  Bytes Take();

 private:
  static constexpr std::size_t kOpen = 256;
  using Sequence = std::vector<std::int32_t>;

  void Close(Sequence sequence);

  const std::size_t length_;
  std::multimap<std::size_t, Sequence> open_;  ///< by room
  std::vector<std::int32_t> closed_;
};

}  // namespace swarm::data
