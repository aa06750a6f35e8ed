// Names in a sentence.
#pragma once

#include <string>
#include <vector>

namespace swarm::ctl {

/// "a, b, c".
inline std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace swarm::ctl
