// The text that protobuf accepts in a `string` field.
#pragma once

#include <string>
#include <string_view>

namespace swarm::net {

/// Whether `text` is well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF).
bool IsUtf8(std::string_view text);

/// `text` itself where it is UTF-8, else with every byte above 0x7f replaced by '?'.
std::string ToUtf8(const std::string& text);

}  // namespace swarm::net
