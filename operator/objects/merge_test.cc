#include "operator/objects/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace swarm::objects {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

json Merged(const std::string& over, const std::string& under) {
  json result = json::parse(under);
  const Status status = Merge(json::parse(over), "template", &result);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return result;
}

std::string Refusal(const std::string& over, const std::string& under) {
  json result = json::parse(under);
  return Merge(json::parse(over), "template", &result).message();
}

TEST(MergeTest, MappingsAreMergedAndOtherValuesReplaced) {
  EXPECT_EQ(Merged(R"({"a": {"x": 1}, "list": [3], "text": "over"})",
                   R"({"a": {"y": 2}, "list": [1, 2], "text": "under", "kept": true})"),
            json::parse(R"({"a": {"x": 1, "y": 2}, "list": [3], "text": "over", "kept": true})"));
}

TEST(MergeTest, ANullChangesNothing) {
  EXPECT_EQ(Merged(R"({"a": null, "b": null})", R"({"a": 1})"), json::parse(R"({"a": 1})"));
  EXPECT_EQ(Merged("null", R"({"a": 1})"), json::parse(R"({"a": 1})"));
}

TEST(MergeTest, ContainersOfOneNameAreMergedAndOthersAppended) {
  EXPECT_EQ(
      Merged(R"({"containers": [{"name": "log", "image": "l"}, {"name": "worker", "tty": true}]})",
             R"({"containers": [{"name": "worker", "image": "w"}]})"),
      json::parse(R"({"containers": [{"name": "worker", "image": "w", "tty": true},
                                           {"name": "log", "image": "l"}]})"));
}

TEST(MergeTest, ResourceClaimsAreMergedByName) {
  EXPECT_EQ(Merged(R"({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "big"}],
                       "claims": [{"name": "nic"}]})",
                   R"({"resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
                       "claims": [{"name": "gpu"}]})"),
            json::parse(R"({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "big"}],
                            "claims": [{"name": "gpu"}, {"name": "nic"}]})"));
}

TEST(MergeTest, AVolumeOrVariableOfTheSameNameTakesThePlaceOfTheOther) {
  EXPECT_EQ(
      Merged(R"({"volumes": [{"name": "state", "hostPath": {"path": "/disk"}}],
                 "env": [{"name": "A", "value": "1"}],
                 "volumeMounts": [{"name": "other", "mountPath": "/tmp"}]})",
             R"({"volumes": [{"name": "state", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
                 "env": [{"name": "A", "valueFrom": {}}, {"name": "B", "value": "2"}],
                 "volumeMounts": [{"name": "tmp", "mountPath": "/tmp", "readOnly": true}]})"),
      json::parse(
          R"({"volumes": [{"name": "state", "hostPath": {"path": "/disk"}},
                          {"name": "tmp", "emptyDir": {}}],
              "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
              "volumeMounts": [{"name": "other", "mountPath": "/tmp"}]})"));
}

TEST(MergeTest, AValueOfAnotherKindIsRefusedAtItsField) {
  EXPECT_THAT(Refusal(R"({"spec": 5})", R"({"spec": {}})"),
              StartsWith("template.spec: is a single value, not a mapping"));
  EXPECT_THAT(Refusal(R"({"spec": {"containers": {}}})", R"({"spec": {"containers": []}})"),
              StartsWith("template.spec.containers: is a mapping, not a list"));
  EXPECT_THAT(Refusal(R"({"containers": [{"name": "a"}, "b"]})", R"({"containers": []})"),
              StartsWith("template.containers[1]: "));
  EXPECT_THAT(Refusal(R"({"text": []})", R"({"text": "x"})"), HasSubstr("not a single value"));
}

TEST(MergeTest, ItemsWithoutAKeyAreAppendedAndDoNoHarm) {
  EXPECT_EQ(Merged(R"({"env": [{"value": 1}, {"name": {"deep": true}}]})", R"({"env": ["odd"]})"),
            json::parse(R"({"env": ["odd", {"value": 1}, {"name": {"deep": true}}]})"));
}

TEST(MergeTest, WhatIsNestedTooDeepIsRefused) {
  json over, under;
  json *a = &over, *b = &under;
  for (int i = 0; i < 100; ++i) {
    a = &(*a)["d"];
    b = &(*b)["d"];
  }
  *a = *b = json::object();
  EXPECT_THAT(Merge(over, "template", &under).message(), HasSubstr("nested too deep"));
}

}  // namespace
}  // namespace swarm::objects
