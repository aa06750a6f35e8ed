// One description of each struct of the manifest serves reading and writing: `Describe(archive,
// value)` names the fields, an ObjectReader fills them from JSON, an ObjectWriter writes them.
// Internal to api/: parse.cc and llama_config.cc hold the descriptions.
//
// A null counts as an absent field, as in Kubernetes.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/enum_names.h"
#include "api/field_error.h"

namespace swarm::api {

template <typename E>
concept NamedEnum = requires { EnumNames<E>::kValues; };

/// Reads one JSON object; collects what is wrong with it in `errors` and goes on.
/// Finish() must be called after the last field.
class ObjectReader {
 public:
  static constexpr bool kReading = true;

  /// `value` and `errors` must outlive the reader. Anything but an object or null is an error.
  ObjectReader(const nlohmann::json& value, std::string path, std::vector<FieldError>* errors);

  /// Leaves `target` (a default) where the key is absent or wrong.
  template <typename T>
  void Field(std::string_view key, T& target) {
    if (const nlohmann::json* value = Find(key)) ReadInto(*value, PathOf(key), target);
  }
  /// As Field; an absent key is an error.
  template <typename T>
  void Required(std::string_view key, T& target) {
    const nlohmann::json* value = Find(key);
    if (value) return ReadInto(*value, PathOf(key), target);
    ReportMissing(key);
  }
  /// An object with a description of its own. An absent one is read as {}, so that what it requires
  /// is reported.
  template <typename T>
  void Object(std::string_view key, T& target) {
    const nlohmann::json* value = Find(key);
    ObjectReader child(value ? *value : Empty(), PathOf(key), errors_);
    if (child.is_object_) Describe(child, target);
    child.Finish();
  }
  /// A list of exactly two numbers.
  void Pair(std::string_view key, double& first, double& second);
  /// A key that must be there and have this value.
  void Constant(std::string_view key, std::string_view value);
  /// A key that may be absent; if not, it must have this value, the only one that is supported.
  void Only(std::string_view key, const nlohmann::json& value);
  /// Keys that are accepted and have no influence.
  void Ignore(std::initializer_list<std::string_view> keys);
  /// Keys of the full manifest that this version refuses with a reason.
  void NotYet(std::initializer_list<std::string_view> keys);
  /// Keys kept together, unread, as one object in `target`.
  void Extra(std::initializer_list<std::string_view> keys, RawJson& target);

  /// Reports the keys that nobody asked for.
  void Finish();

  /// Whether there are fields to read. If not, that has been reported.
  bool is_object() const { return is_object_; }
  /// The value of a key, or null if it is absent; marks the key as known.
  const nlohmann::json* Find(std::string_view key);
  std::string PathOf(std::string_view key) const;
  void Report(std::string path, std::string problem, std::string remedy) {
    errors_->push_back({std::move(path), std::move(problem), std::move(remedy)});
  }
  std::vector<FieldError>* errors() { return errors_; }

 private:
  static const nlohmann::json& Empty();
  void ReportMissing(std::string_view key);
  void ReadInto(const nlohmann::json& value, const std::string& path, bool& target);
  void ReadInto(const nlohmann::json& value, const std::string& path, std::int64_t& target);
  void ReadInto(const nlohmann::json& value, const std::string& path, std::uint64_t& target);
  void ReadInto(const nlohmann::json& value, const std::string& path, double& target);
  void ReadInto(const nlohmann::json& value, const std::string& path, std::string& target);
  void ReadInto(const nlohmann::json& value, const std::string& path, RawJson& target);
  template <NamedEnum E>
  void ReadInto(const nlohmann::json& value, const std::string& path, E& target) {
    std::vector<std::string_view> names;
    for (const auto& [known, name] : EnumNames<E>::kValues) {
      if (value.is_string() && value.get_ref<const std::string&>() == name) {
        target = known;
        return;
      }
      names.push_back(name);
    }
    ReportEnum(value, path, names, {EnumNames<E>::kLater.begin(), EnumNames<E>::kLater.end()});
  }
  void ReportEnum(const nlohmann::json& value, const std::string& path,
                  const std::vector<std::string_view>& names,
                  const std::vector<std::string_view>& later);

  const nlohmann::json& value_;
  const std::string path_;
  std::vector<FieldError>* const errors_;
  bool is_object_ = true;
  std::vector<std::string_view> known_;
};

/// Writes one JSON object. Optional strings that are empty and absent RawJson are left out.
class ObjectWriter {
 public:
  static constexpr bool kReading = false;

  template <typename T>
  void Field(std::string_view key, const T& source) {
    object_[std::string(key)] = source;
  }
  template <NamedEnum E>
  void Field(std::string_view key, const E& source) {
    object_[std::string(key)] = NameOf(source);
  }
  void Field(std::string_view key, const std::string& source) {
    if (!source.empty()) object_[std::string(key)] = source;
  }
  void Field(std::string_view key, const RawJson& source);
  template <typename T>
  void Required(std::string_view key, const T& source) {
    object_[std::string(key)] = source;
  }
  template <typename T>
  void Object(std::string_view key, T& source) {
    ObjectWriter child;
    Describe(child, source);
    object_[std::string(key)] = child.Take();
  }
  void Pair(std::string_view key, double first, double second) {
    object_[std::string(key)] = {first, second};
  }
  void Constant(std::string_view key, std::string_view value) { object_[std::string(key)] = value; }
  void Only(std::string_view key, const nlohmann::json& value) {
    object_[std::string(key)] = value;
  }
  void Ignore(std::initializer_list<std::string_view>) {}
  void NotYet(std::initializer_list<std::string_view>) {}
  void Extra(std::initializer_list<std::string_view> keys, const RawJson& source);

  nlohmann::json Take() { return std::move(object_); }

 private:
  nlohmann::json object_ = nlohmann::json::object();
};

}  // namespace swarm::api
