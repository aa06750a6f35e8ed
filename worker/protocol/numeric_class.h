// What a worker's results depend on, as it says in its Hello (model/numeric_class.h makes it).
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace swarm::protocol {

/// A class is words NAME=VALUE. Words with this prefix are results of a part that not every job
/// has.
inline constexpr std::string_view kProbe = "probe:";

/// `numeric_class` without the probes that are not among `probes`, the names of those that the job
/// depends on.
inline std::string ClassInJob(const std::string& numeric_class,
                              const std::vector<std::string>& probes) {
  std::istringstream words(numeric_class);
  std::string kept;
  for (std::string word; words >> word;) {
    if (word.starts_with(kProbe)) {
      const std::string name = word.substr(kProbe.size(), word.find('=') - kProbe.size());
      if (std::ranges::find(probes, name) == probes.end()) continue;
    }
    kept += (kept.empty() ? "" : " ") + word;
  }
  return kept;
}

}  // namespace swarm::protocol
