// Reads JSON documents from storage, for this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/status.h"

namespace swarm::checkpoint {

/// Keeps the order of keys.
using Json = nlohmann::ordered_json;

/// A JSON object. Errors: kDataLoss (other text, or nested deeper than 64: writing a tree
/// recurses).
inline Result<Json> ParseJsonObject(std::string_view text) {
  bool deep = false;
  const auto keep = [&deep](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > 64;
    return !deep;
  };
  Json json = Json::parse(text, keep, /*allow_exceptions=*/false);
  if (deep) return DataLoss("JSON that is nested too deep");
  if (!json.is_object()) return DataLoss("no JSON object");
  return json;
}

}  // namespace swarm::checkpoint
