#include "api/overrides.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "api/format/yaml.h"

namespace swarm::api {
namespace {

using nlohmann::json;

std::vector<std::string> Split(std::string_view path) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t dot = path.find('.');
    parts.emplace_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

bool NamesTopLevel(const std::string& part) {
  constexpr std::array<std::string_view, 5> kTopLevel{"apiVersion", "kind", "metadata", "spec",
                                                      "status"};
  return std::find(kTopLevel.begin(), kTopLevel.end(), part) != kTopLevel.end();
}

}  // namespace

void ApplyOverride(std::string_view assignment, json* manifest, std::vector<FieldError>* errors) {
  const std::string where = "--set " + std::string(assignment);
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    errors->push_back({where, "has no =", "write path=value, as in training.maxSteps=100"});
    return;
  }
  Checked<json> value = YamlToJson(assignment.substr(equals + 1));
  if (!value.ok()) {
    for (const FieldError& error : value.errors()) {
      errors->push_back({where, "the value is not YAML: " + error.problem, error.remedy});
    }
    return;
  }
  std::vector<std::string> parts = Split(assignment.substr(0, equals));
  if (!NamesTopLevel(parts.front())) parts.insert(parts.begin(), "spec");
  json changed = *manifest;
  json* place = &changed;
  for (const std::string& part : parts) {
    if (part.empty()) {
      errors->push_back({where, "a part of the path is empty", "write path=value"});
      return;
    }
    if (!place->is_object() && !place->is_null()) {
      errors->push_back(
          {where, "there is no mapping to hold " + part, "set the whole field above it instead"});
      return;
    }
    place = &(*place)[part];
  }
  *place = *std::move(value);
  *manifest = std::move(changed);
}

}  // namespace swarm::api
