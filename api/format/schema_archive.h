// The third archive, beside those of archive.h: writes the descriptions as a structural schema of
// Kubernetes (OpenAPI v3) with types, defaults, enumerations and required fields. Internal to api/.
#pragma once

#include "api/format/archive.h"

namespace swarm::api {

enum class SchemaDefaults { kStated, kNone };

/// The schema of one object. The described values are the defaults.
class ObjectSchema {
 public:
  static constexpr bool kReading = false;

  explicit ObjectSchema(SchemaDefaults defaults) : defaults_(defaults) {}

  template <typename T>
  void Field(std::string_view key, const T& value) {
    nlohmann::json schema = Schema(value);
    if (nlohmann::json stated = ObjectWriter().Value(value); IsStated(stated)) {
      schema["default"] = std::move(stated);
    }
    Add(key, std::move(schema));
  }
  template <typename T>
  void Dependent(std::string_view key, const T& value) {
    Add(key, Schema(value));
  }
  template <typename T>
  void Required(std::string_view key, const T& value) {
    Add(key, Schema(value));
    schema_["required"].push_back(key);
  }
  /// The default is {}. The API server then fills in the defaults of its fields.
  template <typename T>
  void Object(std::string_view key, const T& value) {
    nlohmann::json schema = Schema(value);
    if (defaults_ == SchemaDefaults::kStated) schema["default"] = nlohmann::json::object();
    Add(key, std::move(schema));
  }
  template <typename T>
  void RequiredObject(std::string_view key, const T& value) {
    Required(key, value);
  }
  void Quantity(std::string_view key, std::uint64_t bytes) {
    Add(key, {{"x-kubernetes-int-or-string", true}, {"default", bytes}, {"minimum", 0}});
  }
  void Pair(std::string_view key, double first, double second) {
    nlohmann::json pair = {{"type", "array"},
                           {"items", {{"type", "number"}}},
                           {"minItems", 2},
                           {"maxItems", 2},
                           {"default", {first, second}}};
    Add(key, std::move(pair));
  }
  void Constant(std::string_view, std::string_view) {}
  void Only(std::string_view, const nlohmann::json&) { KeepUnknown(); }
  void Ignore(std::initializer_list<std::string_view>) { KeepUnknown(); }
  void Extra(std::initializer_list<std::string_view>, const RawJson&) {}
  /// A property that another description wrote.
  void Add(std::string_view key, nlohmann::json schema) {
    schema_["properties"][std::string(key)] = std::move(schema);
  }

  nlohmann::json Take() { return std::move(schema_); }

 private:
  bool IsStated(const nlohmann::json& value) const {
    return defaults_ == SchemaDefaults::kStated && !value.is_null() &&
           !(value.is_array() && value.empty());
  }
  void KeepUnknown() { schema_["x-kubernetes-preserve-unknown-fields"] = true; }

  template <typename T>
    requires std::is_arithmetic_v<T>
  nlohmann::json Schema(T) const {
    if (std::is_same_v<T, bool>) return {{"type", "boolean"}};
    if (std::is_floating_point_v<T>) return {{"type", "number"}};
    nlohmann::json schema = {{"type", "integer"}, {"format", "int64"}};
    if (std::is_unsigned_v<T>) schema["minimum"] = 0;
    return schema;
  }
  template <NamedEnum E>
  nlohmann::json Schema(E) const {
    nlohmann::json names = nlohmann::json::array();
    for (const auto& [known, name] : EnumNames<E>::kNames) names.push_back(name);
    return {{"type", "string"}, {"enum", names}};
  }
  nlohmann::json Schema(const std::string&) const { return {{"type", "string"}}; }
  nlohmann::json Schema(const RawJson&) const {
    return {{"x-kubernetes-preserve-unknown-fields", true}};
  }
  nlohmann::json Schema(WallTime) const { return {{"type", "string"}, {"format", "date-time"}}; }
  nlohmann::json Schema(const std::map<std::string, std::string>&) const {
    return {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
  }
  template <typename T>
  nlohmann::json Schema(const std::optional<T>&) const {
    return Schema(T());
  }
  template <typename T>
  nlohmann::json Schema(const std::vector<T>&) const {
    return {{"type", "array"}, {"items", Schema(T())}};
  }
  template <typename T>
    requires DescribedFor<ObjectSchema, T>
  nlohmann::json Schema(const T& value) const {
    ObjectSchema child(defaults_);
    T copy = value;
    Describe(child, copy);
    return child.Take();
  }

  const SchemaDefaults defaults_;
  nlohmann::json schema_ = {{"type", "object"}, {"properties", nlohmann::json::object()}};
};

}  // namespace swarm::api
