// How a token of a microbatch is written, by the trainer and for every stage.
#pragma once

#include <cstdint>

namespace swarm {

/// A token in 32 bits. A plain id stands for itself: 2^30 is added to one that begins a document
/// which sees none before it, and all bits of what is read but not learned are inverted.
struct Token {
  std::int32_t id = 0;  ///< at least 0, below 2^30
  bool begins = false;  ///< the first of a sequence begins one in any case
  bool learned = true;  ///< as a label: whether it counts

  static constexpr std::int32_t kBegins = 1 << 30;

  constexpr std::int32_t Write() const {
    const std::int32_t written = begins ? id | kBegins : id;
    return learned ? written : ~written;
  }
  static constexpr Token Read(std::int32_t written) {
    const std::int32_t plain = written < 0 ? ~written : written;
    return {plain & (kBegins - 1), (plain & kBegins) != 0, written >= 0};
  }
};

}  // namespace swarm
