// The input of a fuzz target as a source of choices, and a check that ends the process.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

namespace swarm::fuzz {

/// The bytes of a fuzzer's input, taken from the front. Gives zeros when it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  std::uint8_t Byte() {
    const std::string_view taken = Take(1);
    return taken.empty() ? 0 : static_cast<std::uint8_t>(taken[0]);
  }
  std::uint64_t Number() {
    std::uint64_t number = 0;
    for (int i = 0; i < 8; ++i) number = number << 8 | Byte();
    return number;
  }
  /// At most `size` bytes.
  std::string_view Take(std::size_t size) {
    const std::string_view taken = rest_.substr(0, std::min(size, rest_.size()));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

/// Ends the process, as a finding of the fuzzer, unless `holds`.
inline void Require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "a promise is broken: %s\n", promise);
  std::abort();
}

}  // namespace swarm::fuzz
