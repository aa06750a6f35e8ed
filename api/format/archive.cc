#include "api/format/archive.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/format/quantity.h"
#include "api/format/wall_time.h"

namespace swarm::api {
namespace {

using nlohmann::json;

// The value as text for a message: short, on one line.
std::string Shown(const json& value) {
  constexpr std::size_t kLongest = 40;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() <= kLongest) return text;
  return value.is_structured() ? std::string(value.type_name()) : text.substr(0, kLongest) + "...";
}

std::string Joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

// The remedy for a value of the wrong type.
std::string WithoutQuotes(const json& value, std::string wanted) {
  return value.is_string() ? "write " + wanted + ", without quotes" : "write " + wanted;
}

// A number that a double represents exactly as an integer counts as a whole number: 1e3 is 1000.
bool IsWhole(double number) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  return std::abs(number) <= kExact && std::trunc(number) == number;
}

}  // namespace

ObjectReader::ObjectReader(const json& value, std::string path, std::vector<FieldError>* errors,
                           UnknownKeys unknown_keys)
    : value_(value), path_(std::move(path)), errors_(errors), unknown_keys_(unknown_keys) {
  if (value_.is_null() || value_.is_object()) return;
  is_object_ = false;
  Report(path_, "is " + Shown(value_) + ", not a mapping", "write its fields below it");
}

const json& ObjectReader::Empty() {
  static const json empty = json::object();
  return empty;
}

std::string ObjectReader::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

const json* ObjectReader::Find(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  if (!value_.is_object()) return nullptr;
  const auto found = value_.find(key);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

void ObjectReader::ReportMissing(std::string_view key) {
  if (is_object_) Report(PathOf(key), "is missing", "it has no default");
}

void ObjectReader::Finish() {
  if (!value_.is_object() || unknown_keys_ == UnknownKeys::kPassOver) return;
  for (const auto& [key, value] : value_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string_view nearest = Nearest(key, known_);
    Report(PathOf(key), "unknown field",
           nearest.empty() ? "known fields: " + Joined(known_)
                           : "did you mean " + std::string(nearest) + "?");
  }
}

void ObjectReader::ReadInto(const json& value, const std::string& path, bool& target) {
  if (value.is_boolean()) {
    target = value.get<bool>();
  } else {
    Report(path, "is " + Shown(value) + ", not true or false",
           WithoutQuotes(value, "true or false"));
  }
}

void ObjectReader::ReadInto(const json& value, const std::string& path, std::int64_t& target) {
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    return Report(path, "is " + Shown(value), "at most 2^63 - 1");
  }
  if (value.is_number_integer()) {
    target = value.get<std::int64_t>();
  } else if (value.is_number_float() && IsWhole(value.get<double>())) {
    target = static_cast<std::int64_t>(value.get<double>());
  } else {
    Report(path, "is " + Shown(value) + ", not a whole number",
           WithoutQuotes(value, "a whole number"));
  }
}

void ObjectReader::ReadInto(const json& value, const std::string& path, std::uint64_t& target) {
  if (value.is_number_unsigned()) {
    target = value.get<std::uint64_t>();
  } else if (value.is_number_integer() && value.get<std::int64_t>() >= 0) {
    target = static_cast<std::uint64_t>(value.get<std::int64_t>());
  } else if (value.is_number_float() && IsWhole(value.get<double>()) && value.get<double>() >= 0) {
    target = static_cast<std::uint64_t>(value.get<double>());
  } else {
    Report(path, "is " + Shown(value) + ", not a whole number from 0 to 2^64 - 1",
           WithoutQuotes(value, "a whole number that is not negative"));
  }
}

void ObjectReader::Quantity(std::string_view key, std::uint64_t& target) {
  const json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_string()) return ReadInto(*value, PathOf(key), target);
  constexpr double kEnd = 0x1p64;
  const auto bytes = ParseQuantity(value->get_ref<const std::string&>());
  if (bytes && *bytes < kEnd && (*bytes == 0 || *bytes >= 1)) {
    target = static_cast<std::uint64_t>(*bytes);
  } else {
    Report(PathOf(key), "is " + Shown(*value) + ", not a quantity of bytes",
           "write a whole number, or one with a unit as in 24Mi or 6Gi");
  }
}

void ObjectReader::ReadInto(const json& value, const std::string& path, double& target) {
  if (value.is_number() && std::isfinite(value.get<double>())) {
    target = value.get<double>();
  } else if (value.is_number()) {
    Report(path, "is infinite or not a number", "write a finite number");
  } else {
    Report(path, "is " + Shown(value) + ", not a number", WithoutQuotes(value, "a number"));
  }
}

void ObjectReader::ReadInto(const json& value, const std::string& path, std::string& target) {
  if (value.is_string()) {
    target = value.get<std::string>();
  } else {
    Report(path, "is " + Shown(value) + ", not a string", "put it into quotes");
  }
}

void ObjectReader::ReadInto(const json& value, const std::string&, RawJson& target) {
  target.text = value.dump(-1, ' ', false, json::error_handler_t::replace);
}

void ObjectReader::ReadInto(const json& value, const std::string& path, WallTime& target) {
  const auto* text = value.get_ptr<const std::string*>();
  if (const auto time = text ? ParseTime(*text) : std::nullopt) {
    target = *time;
  } else {
    Report(path, "is " + Shown(value) + ", not a time", "write it as \"2026-11-21T14:30:00Z\"");
  }
}

void ObjectReader::ReadInto(const json& value, const std::string& path,
                            std::map<std::string, std::string>& target) {
  if (!value.is_object()) {
    return Report(path, "is " + Shown(value) + ", not a mapping", "write key: value below it");
  }
  target.clear();
  for (const auto& [key, item] : value.items()) ReadInto(item, path + "." + key, target[key]);
}

void ObjectReader::ReportNoList(const json& value, const std::string& path) {
  Report(path, "is " + Shown(value) + ", not a list", "write [...], or its items below it with -");
}

void ObjectReader::ReportEnum(const json& value, const std::string& path,
                              const std::vector<std::string_view>& names) {
  Report(path, "is " + Shown(value), "one of " + Joined(names));
}

void ObjectReader::Pair(std::string_view key, double& first, double& second) {
  const json* value = Find(key);
  if (!value) return;
  if (!value->is_array() || value->size() != 2) {
    return Report(PathOf(key), "is " + Shown(*value), "write two numbers: [0.9, 0.95]");
  }
  ReadInto((*value)[0], PathOf(key) + "[0]", first);
  ReadInto((*value)[1], PathOf(key) + "[1]", second);
}

void ObjectReader::Constant(std::string_view key, std::string_view value) {
  const json* found = Find(key);
  if (!found) return Report(PathOf(key), "is missing", "write " + std::string(value));
  if (*found != value) {
    Report(PathOf(key), "is " + Shown(*found), "write " + std::string(value));
  }
}

void ObjectReader::Only(std::string_view key, const json& value) {
  const json* found = Find(key);
  if (found && *found != value) {
    Report(PathOf(key), "is " + Shown(*found) + ", which is not supported",
           "the only supported value is " + Shown(value));
  }
}

void ObjectReader::Ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) Find(key);
}

void ObjectReader::Extra(std::initializer_list<std::string_view> keys, RawJson& target) {
  json kept = json::object();
  for (const std::string_view key : keys) {
    if (const json* value = Find(key)) kept[std::string(key)] = *value;
  }
  if (!kept.empty()) ReadInto(kept, path_, target);
}

json ObjectWriter::Value(const RawJson& source) {
  if (source.text.empty()) return {};
  // A text that is not JSON did not come from a reader. As a string it stays visible.
  json value = json::parse(source.text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? json(source.text) : value;
}

json ObjectWriter::Value(WallTime source) { return FormatTime(source); }

void ObjectWriter::LeaveOut(const ObjectWriter& unset) {
  for (const std::string& key : free_) {
    const auto written = object_.find(key);
    const auto otherwise = unset.object_.find(key);
    if (written == object_.end() || otherwise == unset.object_.end()) continue;
    if (*written == *otherwise) object_.erase(written);
  }
}

void ObjectWriter::Extra(std::initializer_list<std::string_view> keys, const RawJson& source) {
  const json kept = json::parse(source.text, nullptr, /*allow_exceptions=*/false);
  if (!kept.is_object()) return;
  for (const std::string_view key : keys) {
    if (const auto found = kept.find(key); found != kept.end()) object_[std::string(key)] = *found;
  }
}

}  // namespace swarm::api
