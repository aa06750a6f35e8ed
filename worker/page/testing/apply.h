// Lets a test act as a page that applies changes (worker/page/state/changes.h), as web/told.js
// does.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace swarm::page {

inline void Apply(const nlohmann::json& change, nlohmann::json* value) {
  if (change.is_array()) {
    *value = change.at(0);
    return;
  }
  for (const auto& [key, part] : change.items()) {
    if (value->is_array()) {
      Apply(part, &value->at(std::stoul(key)));
    } else if (part == 0) {
      value->erase(key);
    } else {
      Apply(part, &(*value)[key]);
    }
  }
}

}  // namespace swarm::page
