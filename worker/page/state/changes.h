// What viewers are told of a value that they know: what has changed. Pure.
#pragma once

#include <string>

namespace swarm::page {

/// What makes `after` of `before`, both JSON, as JSON. [X]: the value becomes X. An object: of the
/// members or elements that it names, those change as it says, and those with 0 go. So {} is no
/// change. An array of another length is told whole.
std::string ChangeOf(const std::string& before, const std::string& after);

}  // namespace swarm::page
