#include "api/format/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace swarm::api {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json Parsed(std::string_view text) {
  const Checked<json> value = YamlToJson(text);
  EXPECT_TRUE(value.ok()) << text << "\n" << ToString(value.errors());
  return value.ok() ? *value : json();
}

std::string Refusal(std::string_view text) {
  const Checked<json> value = YamlToJson(text);
  EXPECT_FALSE(value.ok()) << text;
  return ToString(value.errors());
}

TEST(YamlTest, PlainScalarsGetTheirTypeByTheCoreSchema) {
  const std::vector<std::pair<std::string, json>> table = {
      {"~", nullptr},
      {"null", nullptr},
      {"", nullptr},
      {"true", true},
      {"FALSE", false},
      {"yes", "yes"},
      {"on", "on"},
      {"12", 12},
      {"-12", -12},
      {"+12", 12},
      {"010", 10},
      {"0x1F", 31},
      {"0o17", 15},
      {"3e-4", 3e-4},
      {".5", 0.5},
      {"5.", 5.0},
      {"-1.25E+2", -125.0},
      {"1_000", "1_000"},
      {"1.2.3", "1.2.3"},
      {".", "."},
      {"-", json::array({nullptr})},
      {"e5", "e5"},
      {"1e", "1e"},
      {"0x", "0x"},
      {"nullable", "nullable"},
      {"18446744073709551615", std::numeric_limits<std::uint64_t>::max()},
      {"-9223372036854775808", std::numeric_limits<std::int64_t>::min()},
      {".inf", std::numeric_limits<double>::infinity()},
  };
  for (const auto& [text, value] : table) EXPECT_EQ(Parsed(text), value) << text;
}

TEST(YamlTest, ANumberTooLargeForItsTypeBecomesAFloatingOne) {
  EXPECT_EQ(Parsed("18446744073709551616"), 18446744073709551616.0);
  EXPECT_EQ(Parsed("1e999"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Parsed("1e-999"), 0.0);
}

TEST(YamlTest, QuotedScalarsStayStrings) {
  EXPECT_EQ(Parsed("{a: '12', b: \"true\", c: \"\"}"),
            (json{{"a", "12"}, {"b", "true"}, {"c", ""}}));
  EXPECT_EQ(Parsed("a: |\n  12\n"), (json{{"a", "12\n"}}));
}

TEST(YamlTest, TagsOfTheCoreSchemaHoldAndOthersAreRefused) {
  EXPECT_EQ(Parsed("!!str 12"), "12");
  EXPECT_EQ(Parsed("!!int 12"), 12);
  EXPECT_EQ(Parsed("!!map {a: !!seq [1]}"), (json{{"a", {1}}}));
  EXPECT_THAT(Refusal("a: !!int twelve"), HasSubstr("leave the tag out"));
  EXPECT_THAT(Refusal("!!python/object {a: 1}"), HasSubstr("tag"));
}

TEST(YamlTest, JsonIsYaml) {
  EXPECT_EQ(Parsed(R"({"a": [1, 2.5, null, {"b": "c"}]})"),
            (json{{"a", {1, 2.5, nullptr, {{"b", "c"}}}}}));
}

TEST(YamlTest, AKeyThatStandsTwiceIsRefusedAtItsPlace) {
  EXPECT_EQ(Refusal("a: 1\nb: {c: 1}\na: 2\n"),
            "line 3, column 1: \"a\" occurs twice in one mapping; keep one of them");
}

TEST(YamlTest, BrokenTextIsRefusedAtItsPlace) {
  EXPECT_THAT(Refusal("a: [1, 2\nb: 3\n"), HasSubstr("line "));
  EXPECT_THAT(Refusal("a: b: c"), HasSubstr("line 1"));
  EXPECT_THAT(Refusal("[a]: 1"), HasSubstr("a key that is not a string"));
  EXPECT_THAT(Refusal("a: *nobody"), HasSubstr("line 1"));
}

TEST(YamlTest, SeveralDocumentsAreRefusedAndEmptyOnesAreNot) {
  EXPECT_THAT(Refusal("a: 1\n---\nb: 2\n"), HasSubstr("several documents"));
  EXPECT_EQ(Parsed("---\na: 1\n---\n"), (json{{"a", 1}}));
}

TEST(YamlTest, AnAliasIsTheValueOfItsAnchor) {
  EXPECT_EQ(Parsed("a: &x {b: [1]}\nc: *x\n"), (json{{"a", {{"b", {1}}}}, {"c", {{"b", {1}}}}}));
}

TEST(YamlTest, AliasesThatMultiplyAreRefusedBeforeTheyFillTheMemory) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string previous = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    bomb += name + ": &" + name + " [";
    for (int k = 0; k < 9; ++k) bomb += previous + (k < 8 ? ", " : "]\n");
  }
  EXPECT_THAT(Refusal(bomb), HasSubstr("aliases expanded"));
  EXPECT_THAT(Refusal("&a [*a]"), HasSubstr("an alias inside its own anchor"));
}

TEST(YamlTest, TextThatIsNotUtf8IsRefused) {
  for (const char* text : {"a\xff", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                           "\xe2\x82", "\x80"}) {
    EXPECT_THAT(Refusal(text), HasSubstr("not UTF-8"));
  }
  EXPECT_EQ(Parsed("aé€😀"), "aé€😀");
}

TEST(YamlTest, TextsOutsideTheLimitsAreRefused) {
  EXPECT_THAT(Refusal(std::string(65, '[') + std::string(65, ']')), HasSubstr("nested deeper"));
  EXPECT_FALSE(YamlToJson(std::string(100'000, '[')).ok());
  EXPECT_THAT(Refusal(std::string((1 << 20) + 1, ' ')), HasSubstr("bytes"));
}

}  // namespace
}  // namespace swarm::api
