#include "worker/page/state/changes.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "worker/page/testing/apply.h"

namespace swarm::page {
namespace {

using Json = nlohmann::json;

std::string Change(const char* before, const char* after) {
  ToldValue told;
  told.ChangeTo(before);
  return told.ChangeTo(after);
}

TEST(ChangesTest, OnlyWhatHasChangedIsTold) {
  EXPECT_EQ(Change(R"({"step":1,"job":"a","stages":[{"rate":1},{"rate":2}]})",
                   R"({"step":2,"job":"a","stages":[{"rate":1},{"rate":null}]})"),
            R"({"stages":{"1":{"rate":[null]}},"step":[2]})");
  EXPECT_EQ(Change("[1,{}]", "[1,{}]"), "{}");
}

TEST(ChangesTest, MembersComeAndGo) {
  EXPECT_EQ(Change(R"({"a":1,"b":2})", R"({"b":2,"c":{"d":3}})"), R"({"a":0,"c":[{"d":3}]})");
}

TEST(ChangesTest, AnArrayOfAnotherLengthIsToldWhole) {
  EXPECT_EQ(Change("[1,2]", "[1,2,3]"), "[[1,2,3]]");
}

TEST(ChangesTest, AJobThatHasNoTrainerForAWhileIsToldWholeAgain) {
  EXPECT_EQ(Change(R"({"step":1})", "null"), "[null]");
  EXPECT_EQ(Change("null", R"({"step":1})"), R"([{"step":1}])");
}

/// A value of this depth at most, of few keys and numbers, so that two of them often agree.
rc::Gen<Json> AnyJson(int depth) {
  const auto number = rc::gen::map(
      rc::gen::inRange(0, 3), [](int drawn) { return drawn == 2 ? Json(nullptr) : Json(drawn); });
  if (depth == 0) return number;
  const auto parts = rc::gen::container<std::vector<Json>>(AnyJson(depth - 1));
  return rc::gen::oneOf(
      number, rc::gen::map(parts, [](const std::vector<Json>& drawn) { return Json(drawn); }),
      rc::gen::map(parts, [](const std::vector<Json>& drawn) {
        Json object = Json::object();
        for (std::size_t i = 0; i < drawn.size(); ++i) {
          if (!drawn[i].is_null()) object[std::to_string(i % 4)] = drawn[i];
        }
        return object;
      }));
}

RC_GTEST_PROP(ChangesTest, WhoAppliesThemHasTheValue, ()) {
  Json known;
  ToldValue told;
  // A larger value of this depth has hundreds of thousands of parts, and shows nothing else.
  constexpr int kSize = 20;
  for (const Json& value :
       *rc::gen::resize(kSize, rc::gen::container<std::vector<Json>>(AnyJson(3)))) {
    Apply(Json::parse(told.ChangeTo(value.dump())), &known);
    RC_ASSERT(known == value);
    RC_ASSERT(told.text() == value.dump());
  }
}

}  // namespace
}  // namespace swarm::page
