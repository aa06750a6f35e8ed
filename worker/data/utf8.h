// Checks that text is UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace swarm::data {

/// The offset of the first byte that begins no well-formed UTF-8 sequence (RFC 3629: no overlong
/// forms, no surrogates, nothing above U+10FFFF); none when all of `text` is well-formed.
std::optional<std::size_t> FindInvalidUtf8(std::string_view text);

}  // namespace swarm::data
