// Text as HTML. Pure.
#pragma once

#include <string>
#include <string_view>

namespace swarm::ctl {

/// Names and texts of a run, which anybody may have written: they become no markup, in content and
/// in quoted attributes. Control characters and bytes that are not UTF-8 become U+FFFD.
std::string Escape(std::string_view text);

}  // namespace swarm::ctl
