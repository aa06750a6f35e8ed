#include "worker/page/state/changes.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace swarm::page {
namespace {

using Json = nlohmann::json;

Json Whole(const Json& value) { return Json::array({value}); }

Json ChangeOf(const Json& before, const Json& after);

Json ChangeOfArray(const Json& before, const Json& after) {
  Json change = Json::object();
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (before[i] != after[i]) change[std::to_string(i)] = ChangeOf(before[i], after[i]);
  }
  return change;
}

Json ChangeOfObject(const Json& before, const Json& after) {
  Json change = Json::object();
  for (const auto& [key, value] : before.items()) {
    if (!after.contains(key)) change[key] = 0;
  }
  for (const auto& [key, value] : after.items()) {
    const auto known = before.find(key);
    if (known == before.end()) {
      change[key] = Whole(value);
    } else if (*known != value) {
      change[key] = ChangeOf(*known, value);
    }
  }
  return change;
}

Json ChangeOf(const Json& before, const Json& after) {
  if (before.is_object() && after.is_object()) return ChangeOfObject(before, after);
  if (before.is_array() && after.is_array() && before.size() == after.size()) {
    return ChangeOfArray(before, after);
  }
  return before == after ? Json::object() : Whole(after);
}

}  // namespace

struct ToldValue::Parsed {
  Json value;
};

ToldValue::ToldValue() : text_("null"), parsed_(std::make_unique<Parsed>()) {}
ToldValue::~ToldValue() = default;

std::string ToldValue::ChangeTo(std::string text) {
  if (text == text_) return "{}";
  Json value = Json::parse(text);
  const Json change = ChangeOf(parsed_->value, value);
  text_ = std::move(text);
  parsed_->value = std::move(value);
  return change.dump();
}

}  // namespace swarm::page
