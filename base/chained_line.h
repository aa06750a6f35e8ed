// Lines of JSON of which each ends with a digest of itself and of the line before, so that a line
// that was altered, removed or moved shows. Against accidents and hands, not against an attacker.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace swarm {

inline constexpr std::string_view kChainKey = ",\"digest\":\"";

/// The digest at the end of a line, 32 digits; empty: it has none.
inline std::string_view ChainDigest(std::string_view line) {
  constexpr std::size_t kDigits = 32;
  constexpr std::size_t kSize = kChainKey.size() + kDigits + 2;  // with the quote and the brace
  if (line.size() < kSize || !line.ends_with("\"}")) return {};
  line.remove_prefix(line.size() - kSize);
  return line.starts_with(kChainKey) ? line.substr(kChainKey.size(), kDigits) : std::string_view();
}

/// `object`, a JSON object with members, with the digest as the last of them. `before` is the
/// digest of the line before, empty if there is none.
inline std::string ChainLine(std::string_view object, std::string_view before) {
  const std::string text = std::string(before) += object;
  std::string line(object.substr(0, object.size() - 1));
  return line.append(kChainKey) += ComputeDigest(std::as_bytes(std::span(text))).Hex() + "\"}";
}

/// Whether a line with a digest is what ChainLine has made behind that line.
inline bool ChainHolds(std::string_view line, std::string_view before) {
  const std::size_t end = line.size() - ChainDigest(line).size() - kChainKey.size() - 2;
  return ChainLine(std::string(line.substr(0, end)) += '}', before) == line;
}

}  // namespace swarm
