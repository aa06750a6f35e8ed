// Each struct of the manifest has one description, a function `Describe(archive, value)` that names
// its fields. An ObjectReader fills them from JSON, an ObjectWriter writes them, and an
// ObjectSchema (schema_archive.h) writes their schema. In api/, parse.cc, decoder_config.cc and
// status_json.cc contain the descriptions; ctl/simulate/fleet_file.cc reads fleets in this way.
//
// A null counts as an absent field, as in Kubernetes.
#pragma once

#include <concepts>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "api/format/defaults.h"
#include "api/format/enum_names.h"
#include "api/format/field_error.h"
#include "api/format/wall_time.h"

namespace swarm::api {

template <typename E>
concept NamedEnum = requires { EnumNames<E>::kNames; };

template <typename Archive, typename T>
concept DescribedFor = requires(Archive& archive, T& value) { Describe(archive, value); };

/// Whether keys that no description names are errors. They are in a manifest, where they may be
/// misspelled, and not in an object that a later version of this program may have written.
enum class UnknownKeys { kRefuse, kPassOver };

/// Reads one JSON object. Adds its errors to `errors` and continues. Call Finish() after the last
/// field. Has more than 25 methods: the kinds of field, and a ReadInto() for each type of value.
class ObjectReader {
 public:
  static constexpr bool kReading = true;

  /// `value` and `errors` must outlive the reader. A value that is not an object or null is an
  /// error.
  ObjectReader(const nlohmann::json& value, std::string path, std::vector<FieldError>* errors,
               UnknownKeys unknown_keys = UnknownKeys::kRefuse);

  /// Leaves `target`, a default, unchanged if the key is absent or wrong.
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
  /// As Field, for a field whose default depends on other fields. The schema states no default.
  template <typename T>
  void Dependent(std::string_view key, T& target) {
    Field(key, target);
  }
  /// An object with its own description. An absent object is read as {}.
  template <typename T>
  void Object(std::string_view key, T& target) {
    const nlohmann::json* value = Find(key);
    ReadInto(value ? *value : Empty(), PathOf(key), target);
  }
  /// As Object, for an object with required fields. If it is absent, these are reported as missing.
  template <typename T>
  void RequiredObject(std::string_view key, T& target) {
    Object(key, target);
  }
  /// Bytes, as a whole number or as one of Kubernetes' quantities (ParseQuantity), of which a part
  /// of a byte is dropped.
  void Quantity(std::string_view key, std::uint64_t& target);
  /// A list of exactly two numbers.
  void Pair(std::string_view key, double& first, double& second);
  /// A key that must exist and have this value.
  void Constant(std::string_view key, std::string_view value);
  /// A key that may be absent. If it exists, it must have this value, the only supported one.
  void Only(std::string_view key, const nlohmann::json& value);
  /// Keys that are accepted and ignored.
  void Ignore(std::initializer_list<std::string_view> keys);
  /// Keys whose values are kept, unread, as one object in `target`.
  void Extra(std::initializer_list<std::string_view> keys, RawJson& target);

  /// Reports the keys that no call above named, unless unknown keys are allowed.
  void Finish();

  /// Whether the value is an object. If not, the reader has reported that.
  bool is_object() const { return is_object_; }
  /// The value of a key, or null if it is absent. Marks the key as known.
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
  void ReadInto(const nlohmann::json& value, const std::string& path, WallTime& target);
  void ReadInto(const nlohmann::json& value, const std::string& path,
                std::map<std::string, std::string>& target);
  template <typename T>
  void ReadInto(const nlohmann::json& value, const std::string& path, std::optional<T>& target) {
    ReadInto(value, path, target.emplace());
  }
  template <typename T>
  void ReadInto(const nlohmann::json& value, const std::string& path, std::vector<T>& target) {
    if (!value.is_array()) return ReportNoList(value, path);
    target.assign(value.size(), T());
    for (std::size_t i = 0; i < value.size(); ++i) {
      ReadInto(value[i], path + "[" + std::to_string(i) + "]", target[i]);
    }
  }
  template <typename T>
    requires DescribedFor<ObjectReader, T>
  void ReadInto(const nlohmann::json& value, const std::string& path, T& target) {
    ObjectReader child(value, path, errors_, unknown_keys_);
    if (child.is_object_) Describe(child, target);
    child.Finish();
  }
  template <NamedEnum E>
  void ReadInto(const nlohmann::json& value, const std::string& path, E& target) {
    std::vector<std::string_view> names;
    for (const auto& [known, name] : EnumNames<E>::kNames) {
      if (value.is_string() && value.get_ref<const std::string&>() == name) {
        target = known;
        return;
      }
      names.push_back(name);
    }
    ReportEnum(value, path, names);
  }
  void ReportNoList(const nlohmann::json& value, const std::string& path);
  void ReportEnum(const nlohmann::json& value, const std::string& path,
                  const std::vector<std::string_view>& names);

  const nlohmann::json& value_;
  const std::string path_;
  std::vector<FieldError>* const errors_;
  const UnknownKeys unknown_keys_;
  bool is_object_ = true;
  std::vector<std::string_view> known_;
};

/// Writes one JSON object. Leaves out absent values: an empty text or map, an absent RawJson or
/// optional.
class ObjectWriter {
 public:
  static constexpr bool kReading = false;

  explicit ObjectWriter(Defaults defaults = Defaults::kWritten) : defaults_(defaults) {}

  template <typename T>
  void Field(std::string_view key, const T& source) {
    Dependent(key, source);
    free_.emplace_back(key);
  }
  /// Writes also an empty text.
  template <typename T>
  void Required(std::string_view key, const T& source) {
    nlohmann::json value = Value(source);
    object_[std::string(key)] = value.is_null() ? nlohmann::json("") : std::move(value);
  }
  template <typename T>
  void Dependent(std::string_view key, const T& source) {
    nlohmann::json value = Value(source);
    if (!value.is_null()) object_[std::string(key)] = std::move(value);
  }
  /// One without fields is left out where defaults are.
  template <typename T>
  void Object(std::string_view key, const T& source) {
    nlohmann::json value = Value(source);
    if (defaults_ == Defaults::kLeftOut && value.empty()) return;
    object_[std::string(key)] = std::move(value);
  }
  template <typename T>
  void RequiredObject(std::string_view key, const T& source) {
    object_[std::string(key)] = Value(source);
  }
  void Quantity(std::string_view key, std::uint64_t bytes) { Field(key, bytes); }
  void Pair(std::string_view key, double first, double second) {
    object_[std::string(key)] = {first, second};
    free_.emplace_back(key);
  }
  void Constant(std::string_view key, std::string_view value) { object_[std::string(key)] = value; }
  void Only(std::string_view key, const nlohmann::json& value) {
    object_[std::string(key)] = value;
  }
  void Ignore(std::initializer_list<std::string_view>) {}
  void Extra(std::initializer_list<std::string_view> keys, const RawJson& source);

  nlohmann::json Take() { return std::move(object_); }

  /// A value as it is written. Null: it is left out.
  template <typename T>
    requires std::is_arithmetic_v<T>
  static nlohmann::json Value(T source) {
    return source;
  }
  template <NamedEnum E>
  static nlohmann::json Value(E source) {
    return NameOf(source);
  }
  static nlohmann::json Value(const nlohmann::json& source) { return source; }
  static nlohmann::json Value(const std::string& source) {
    return source.empty() ? nlohmann::json() : nlohmann::json(source);
  }
  static nlohmann::json Value(const RawJson& source);
  static nlohmann::json Value(WallTime source);
  static nlohmann::json Value(const std::map<std::string, std::string>& source) {
    return source.empty() ? nlohmann::json() : nlohmann::json(source);
  }
  template <typename T>
  nlohmann::json Value(const std::optional<T>& source) const {
    return source ? Value(*source) : nlohmann::json();
  }
  template <typename T>
  nlohmann::json Value(const std::vector<T>& source) const {
    nlohmann::json list = nlohmann::json::array();
    for (const T& item : source) list.push_back(Value(item));
    return list;
  }
  template <typename T>
    requires DescribedFor<ObjectWriter, T>
  nlohmann::json Value(const T& source) const {
    ObjectWriter writer(defaults_);
    T copy = source;  // a description may change what it reads into
    Describe(writer, copy);
    if constexpr (std::default_initializable<T>) {
      if (defaults_ == Defaults::kLeftOut) writer.LeaveOut(Unset<T>());
    }
    return writer.Take();
  }

 private:
  /// What a T with all its defaults is written as, before anything is left out of it.
  template <typename T>
  static const ObjectWriter& Unset() {
    static const ObjectWriter written = [] {
      ObjectWriter writer(Defaults::kLeftOut);
      T unset{};
      Describe(writer, unset);
      return writer;
    }();
    return written;
  }
  void LeaveOut(const ObjectWriter& unset);

  const Defaults defaults_;
  nlohmann::json object_ = nlohmann::json::object();
  std::vector<std::string> free_;  // the fields that may be left out
};

}  // namespace swarm::api
