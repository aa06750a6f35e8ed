// Holds the CustomResourceDefinition and the structs of api/ to each other: a field, a type, a
// default or an enumeration that stands in one of them only fails here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

#include "api/format/quantity.h"
#include "api/format/schema.h"
#include "api/format/yaml.h"
#include "api/parse.h"
#include "api/status.h"
#include "api/validate.h"

namespace swarm::api {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kKeepUnknown = "x-kubernetes-preserve-unknown-fields";
constexpr const char* kIntOrString = "x-kubernetes-int-or-string";

json ReadYaml(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  Checked<json> value = YamlToJson(text.str());
  EXPECT_TRUE(value.ok()) << path << "\n" << ToString(value.errors());
  return value.ok() ? *std::move(value) : json();
}

const json& Definition() {
  static const json definition =
      ReadYaml(std::filesystem::path(SWARM_SOURCE_DIR) / "crds" / "swarmjob.yaml");
  return definition;
}
const json& Version() { return Definition()["spec"]["versions"][0]; }
const json& Schema() { return Version()["schema"]["openAPIV3Schema"]; }
const json& Part(const char* name) { return Schema()["properties"][name]; }

// Null if there is none.
json Get(const json& object, const std::string& key) {
  return object.is_object() ? object.value(key, json()) : json();
}

std::set<std::string> Names(const json& schema) {
  std::set<std::string> names;
  const json properties = Get(schema, "properties");
  for (const auto& [name, property] : properties.items()) names.insert(name);
  return names;
}
std::set<std::string> Texts(const json& list) {
  return list.is_array() ? list.get<std::set<std::string>>() : std::set<std::string>();
}

// Everything in which the CRD's schema `there` differs from `here`, the schema of the structs.
void Compare(const std::string& path, const json& there, const json& here,
             std::vector<std::string>* differences) {
  const auto differ = [&](const std::string& what) { differences->push_back(path + ": " + what); };
  if (here == json{{kKeepUnknown, true}}) return;  // RawJson: Kubernetes' own words
  for (const char* key : {"type", "format", "default", kKeepUnknown, kIntOrString}) {
    if (Get(there, key) != Get(here, key)) {
      differ(std::string(key) + " " + Get(there, key).dump() + ", here " + Get(here, key).dump());
    }
  }
  if (here.contains("minimum") && !(Get(there, "minimum").is_number() && there["minimum"] >= 0)) {
    differ("has no minimum, and cannot be negative here");
  }
  if (Texts(Get(there, "enum")) != Texts(Get(here, "enum"))) differ("enum");
  if (Texts(Get(there, "required")) != Texts(Get(here, "required"))) differ("required");
  for (const std::string& name : Names(there)) {
    if (!Names(here).contains(name)) differ(name + " is not known here");
  }
  for (const std::string& name : Names(here)) {
    if (!Names(there).contains(name)) {
      differ(name + " is missing in the CRD");
      continue;
    }
    Compare(path + "." + name, there["properties"][name], here["properties"][name], differences);
  }
  for (const char* key : {"items", "additionalProperties"}) {
    if (there.contains(key) != here.contains(key)) {
      differ(key);
    } else if (there.contains(key)) {
      Compare(path + "[]", there[key], here[key], differences);
    }
  }
}

std::vector<std::string> Differences(const std::string& path, const json& there, const json& here) {
  std::vector<std::string> differences;
  Compare(path, there, here, &differences);
  return differences;
}

TEST(CrdTest, TheSpecIsThatOfTheStructs) {
  EXPECT_THAT(Differences("spec", Part("spec"), SpecSchema()), IsEmpty());
}

TEST(CrdTest, TheStatusIsThatOfTheStructs) {
  EXPECT_THAT(Differences("status", Part("status"), StatusSchema()), IsEmpty());
}

TEST(CrdTest, AFieldInOneOfThemOnlyIsFound) {
  json more = SpecSchema(), fewer = more, other = more;
  more["properties"]["data"]["properties"]["colour"] = {{"type", "string"}};
  fewer["properties"]["workers"]["properties"]["pools"]["items"]["properties"].erase("name");
  other["properties"]["training"]["properties"]["microbatchSize"]["default"] = 2;
  for (const json& changed : {more, fewer, other}) {
    EXPECT_THAT(Differences("spec", Part("spec"), changed), testing::SizeIs(1));
    EXPECT_THAT(Differences("spec", changed, Part("spec")), testing::Not(IsEmpty()));
  }
}

// Calls visit(path, schema) for every schema below.
template <typename Visit>
void Walk(const std::string& path, const json& schema, const Visit& visit) {
  visit(path, schema);
  const json properties = Get(schema, "properties");
  for (const auto& [name, property] : properties.items()) {
    Walk(path + "." + name, property, visit);
  }
  for (const char* key : {"items", "additionalProperties"}) {
    if (Get(schema, key).is_object()) Walk(path + "[]", schema[key], visit);
  }
}

TEST(CrdTest, EveryFieldIsExplained) {
  for (const char* part : {"spec", "status"}) {
    Walk(part, Part(part), [](const std::string& path, const json& schema) {
      if (path.ends_with("[]")) return;
      const std::string text = schema.value("description", "");
      EXPECT_TRUE(text.ends_with(".")) << path << ": " << text;
    });
  }
}

// A comma in a description without quotes would begin another key.
TEST(CrdTest, EveryKeyIsOneOfAStructuralSchema) {
  const std::set<std::string> known = {"type",
                                       "format",
                                       "description",
                                       "default",
                                       "minimum",
                                       "maximum",
                                       "minLength",
                                       "maxLength",
                                       "pattern",
                                       "enum",
                                       "items",
                                       "properties",
                                       "required",
                                       "minItems",
                                       "maxItems",
                                       "maxProperties",
                                       "additionalProperties"};
  Walk("", Schema(), [&](const std::string& path, const json& schema) {
    for (const auto& [key, value] : schema.items()) {
      EXPECT_TRUE(known.contains(key) || key.starts_with("x-kubernetes-")) << path << ": " << key;
    }
  });
}

// A rule over a text or a list of any length may cost too much for the API server to take it.
TEST(CrdTest, EveryTextOfTheSpecHasALongestLength) {
  Walk("spec", Part("spec"), [](const std::string& path, const json& schema) {
    if (schema.value("type", "") == "string" && !schema.contains("enum")) {
      EXPECT_TRUE(schema.contains("maxLength")) << path;
    }
    if (schema.value("type", "") == "array") {
      EXPECT_TRUE(schema.contains("maxItems")) << path;
    }
  });
}

TEST(CrdTest, MemoryIsAQuantityForTheClusterWhereItIsOneForThePrograms) {
  const json& pipeline = Part("spec")["properties"]["pipeline"]["properties"];
  const std::regex pattern(pipeline["memory"]["properties"]["host"]["pattern"].get<std::string>());
  for (const std::string text :
       {"0", "24Mi", "6Gi", "7.5Gi", "6.Gi", "8e9", "8E+9", "1P", "5000m", "", "Gi", "-1", "+1",
        "inf", "6GB", "6gi", "6 Gi", "0x10", ".5Gi"}) {
    EXPECT_EQ(std::regex_match(text, pattern), ParseQuantity(text).has_value()) << text;
  }
}

// What the API server does to an object that leaves fields out.
void FillIn(const json& schema, json& value) {
  if (value.is_object()) {
    const json properties = Get(schema, "properties");
    for (const auto& [name, property] : properties.items()) {
      if (!value.contains(name) && property.contains("default")) value[name] = property["default"];
      if (value.contains(name)) FillIn(property, value[name]);
    }
  } else if (value.is_array() && schema.contains("items")) {
    for (json& item : value) FillIn(schema["items"], item);
  }
}

constexpr const char* kConfigSpec = R"({
    "model": {"config": {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
                         "intermediate_size": 128, "vocab_size": 256}},
    "data": {"uri": "a.txt"}, "pipeline": {"stages": 2},
    "training": {"maxSteps": 5, "globalBatchSize": 8, "sequenceLength": 32}})";
constexpr const char* kUriSpec = R"({
    "model": {"uri": "s3://a/b", "tokenizer": {"uri": "t.model"}}, "data": {"uri": "a.bin"},
    "workers": {"replicas": 3, "pools": [{"name": "spot"}]},
    "training": {"maxSteps": 5, "globalBatchSize": 8, "sequenceLength": 32}})";

json Manifest(const char* spec) {
  return {{"apiVersion", "swarmjob.dev/v1alpha1"},
          {"kind", "SwarmJob"},
          {"metadata", {{"name", "job"}}},
          {"spec", json::parse(spec)}};
}

TEST(CrdTest, AJobThatTheApiServerFilledInIsTheJobOfItsManifest) {
  for (const char* spec : {kConfigSpec, kUriSpec}) {
    json manifest = Manifest(spec);
    const Checked<SwarmJob> written = FromJson(manifest);
    ASSERT_TRUE(written.ok()) << ToString(written.errors());
    FillIn(Schema(), manifest);
    ASSERT_TRUE(manifest["spec"].contains("optimizer"));
    const Checked<SwarmJob> stored = FromJson(json::parse(manifest.dump()));
    ASSERT_TRUE(stored.ok()) << ToString(stored.errors());
    EXPECT_EQ(*stored, *written);
  }
}

// Whether api/ finds something wrong with this field, or with the whole it belongs to.
bool Refuses(const json& manifest, const std::string& path) {
  const Checked<SwarmJob> job = FromJson(manifest);
  const std::vector<FieldError> errors = job.ok() ? Validate(*job) : job.errors();
  return std::any_of(errors.begin(), errors.end(), [&](const FieldError& error) {
    return error.path.starts_with(path) || path.starts_with(error.path);
  });
}

// Calls visit(path, schema, value) for every whole number of the spec in `value`.
template <typename Visit>
void VisitIntegers(const std::string& path, const json& schema, json& value, const Visit& visit) {
  if (Get(schema, "type") == "integer") visit(path, schema, value);
  const json properties = Get(schema, "properties");
  for (const auto& [name, property] : properties.items()) {
    if (Get(property, "type") == "integer" || value.contains(name)) {
      VisitIntegers(path + "." + name, property, value[name], visit);
    }
  }
  if (path.ends_with(".pools")) VisitIntegers(path + "[0]", schema["items"], value[0], visit);
}

TEST(CrdTest, WhatTheClusterRefusesTheProgramsRefuse) {
  json manifest = Manifest(kConfigSpec);
  FillIn(Schema(), manifest);
  int numbers = 0;
  VisitIntegers("spec", Part("spec"), manifest["spec"],
                [&](const std::string& path, const json& schema, json& value) {
                  const json kept = value;
                  value = schema["minimum"].get<std::int64_t>() - 1;
                  EXPECT_TRUE(Refuses(manifest, path)) << path << ": " << value;
                  if (schema.contains("maximum")) {
                    value = schema["maximum"].get<std::int64_t>() + 1;
                    EXPECT_TRUE(Refuses(manifest, path)) << path << ": " << value;
                  }
                  value = kept;
                  ++numbers;
                });
  EXPECT_GE(numbers, 25);
}

// Whether the schema takes a value, by its types, ranges and enumerations (its rules in CEL are the
// API server's to carry out).
void Refusals(const std::string& path, const json& schema, const json& value,
              std::vector<std::string>* refusals) {
  const std::string type = schema.value("type", "");
  const bool fits =
      type.empty() || (type == "object" && value.is_object()) ||
      (type == "array" && value.is_array()) || (type == "string" && value.is_string()) ||
      (type == "boolean" && value.is_boolean()) ||
      (type == "integer" && value.is_number_integer()) || (type == "number" && value.is_number());
  const bool in_enum = !schema.contains("enum") || Texts(schema["enum"]).contains(value);
  const bool in_range =
      !value.is_number() || (value >= Get(schema, "minimum") &&
                             (!schema.contains("maximum") || value <= schema["maximum"]));
  if (!fits || !in_enum || !in_range) refusals->push_back(path + ": " + value.dump());
  if (value.is_array() && schema.contains("items")) {
    for (const json& item : value) Refusals(path + "[]", schema["items"], item, refusals);
  }
  if (!value.is_object()) return;
  for (const std::string& name : Texts(Get(schema, "required"))) {
    if (!value.contains(name)) refusals->push_back(path + "." + name + " is missing");
  }
  for (const auto& [name, part] : value.items()) {
    const json stated = Get(Get(schema, "properties"), name);
    const json property = stated.is_null() ? Get(schema, "additionalProperties") : stated;
    if (!property.is_null()) {
      Refusals(path + "." + name, property, part, refusals);
    } else if (!schema.value(kKeepUnknown, false)) {
      refusals->push_back(path + "." + name + " is not known");
    }
  }
}

TEST(CrdTest, TheClusterTakesEveryExample) {
  int examples = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(SWARM_SOURCE_DIR) + "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    std::vector<std::string> refusals;
    Refusals("spec", Part("spec"), ReadYaml(entry.path())["spec"], &refusals);
    EXPECT_THAT(refusals, IsEmpty()) << entry.path();
    ++examples;
  }
  EXPECT_GT(examples, 0);
}

TEST(CrdTest, KubectlShowsWhatPeopleAskFor) {
  std::vector<std::string> narrow, wide;
  for (const json& column : Version()["additionalPrinterColumns"]) {
    (column.value("priority", 0) == 0 ? narrow : wide).push_back(column["name"]);
  }
  EXPECT_THAT(narrow, ElementsAre("State", "Step", "Loss", "Left", "Ready", "Desired",
                                  "Preemptions", "Age"));
  EXPECT_THAT(wide,
              ElementsAre("Tokens/s", "Tokens", "Spent", "Dollars/h", "Parameters", "Failures",
                          "Stages", "Clusters", "Checkpoint", "Reason", "Message"));
}

TEST(CrdTest, EveryColumnAndScalePathLeadsToAField) {
  std::vector<std::string> paths;
  for (const json& column : Version()["additionalPrinterColumns"]) {
    if (column["type"] != "date") paths.push_back(column["jsonPath"]);
  }
  for (const auto& [key, path] : Version()["subresources"]["scale"].items()) paths.push_back(path);
  constexpr std::string_view kReady = "[?(@.type==\"Ready\")]";
  for (std::string path : paths) {
    const json* schema = &Schema();
    if (const auto filter = path.find(kReady); filter != path.npos) {
      path.replace(filter, kReady.size(), ".items");
    }
    std::istringstream parts(path.substr(1));
    for (std::string part; std::getline(parts, part, '.');) {
      if (part == "items" && schema->contains("items")) {
        schema = &(*schema)["items"];
        continue;
      }
      ASSERT_TRUE(Names(*schema).contains(part)) << path;
      schema = &(*schema)["properties"][part];
    }
  }
}

TEST(CrdTest, NamesAreThoseOfTheManifest) {
  EXPECT_EQ(Definition()["metadata"]["name"], "swarmjobs.swarmjob.dev");
  EXPECT_EQ(Definition()["spec"]["group"], "swarmjob.dev");
  EXPECT_EQ(Definition()["spec"]["names"]["kind"], "SwarmJob");
  EXPECT_EQ(Version()["name"], "v1alpha1");
  EXPECT_TRUE(Version()["subresources"].contains("status"));
}

}  // namespace
}  // namespace swarm::api
