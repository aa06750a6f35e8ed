#include "api/overrides.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace swarm::api {
namespace {

using nlohmann::json;

std::pair<json, std::string> Applied(json manifest, std::string_view assignment) {
  std::vector<FieldError> errors;
  ApplyOverride(assignment, &manifest, &errors);
  return {manifest, ToString(errors)};
}

TEST(OverridesTest, PutsAValueAtAPathBelowSpecOrFromTheTop) {
  EXPECT_EQ(Applied(json::object(), "training.maxSteps=5").first,
            (json{{"spec", {{"training", {{"maxSteps", 5}}}}}}));
  EXPECT_EQ(Applied({{"spec", {{"suspend", true}}}}, "spec.suspend=false").first,
            (json{{"spec", {{"suspend", false}}}}));
  EXPECT_EQ(Applied(json::object(), "metadata.name=x").first,
            (json{{"metadata", {{"name", "x"}}}}));
}

TEST(OverridesTest, TheValueIsYaml) {
  const auto value = [](std::string text) {
    return Applied(json::object(), "a=" + text).first["spec"]["a"];
  };
  EXPECT_EQ(value("3e-4"), 3e-4);
  EXPECT_EQ(value("'5'"), "5");
  EXPECT_EQ(value("[0.9, 0.99]"), (json{0.9, 0.99}));
  EXPECT_EQ(value("{b: c=d}"), (json{{"b", "c=d"}}));
  EXPECT_EQ(value(""), nullptr);
}

TEST(OverridesTest, WhatNamesNoFieldIsRefusedAndChangesNothing) {
  const json manifest = {{"spec", {{"optimizer", {{"betas", {0.9, 0.95}}}}}}};
  for (const char* assignment :
       {"training.maxSteps", "=5", "a..b=5", "optimizer.betas.0=5", "a=[", "a=b: c: d"}) {
    const auto [changed, errors] = Applied(manifest, assignment);
    EXPECT_EQ(changed, manifest) << assignment;
    EXPECT_EQ(errors.find(std::string("--set ") + assignment), 0u) << errors;
  }
}

}  // namespace
}  // namespace swarm::api
