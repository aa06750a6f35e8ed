#include "worker/data/huggingface/special_tokens.h"

#include <gmock/gmock.h>

#include "worker/data/huggingface/file_names.h"

namespace swarm::data {
namespace {

using testing::HasSubstr;

using Content = std::map<std::string, std::string>;

Result<SpecialTokens> Read(const Content& content) {
  TokenizerFiles files;
  for (const auto& [name, text] : content) files.files[name] = Bytes::Copy(text);
  return ReadSpecialTokens(files, [](std::string_view token) -> std::optional<std::int32_t> {
    if (token == "<s>") return 1;
    if (token == "</s>") return 2;
    return std::nullopt;
  });
}

void Expect(const Content& content, std::optional<std::int32_t> bos,
            std::optional<std::int32_t> eos) {
  const auto special = Read(content);
  ASSERT_TRUE(special.ok()) << special.status().ToString();
  EXPECT_EQ(special->bos, bos);
  EXPECT_EQ(special->eos, eos);
}

TEST(SpecialTokensTest, TheConfigNamesThemAsTextOrAsObjects) {
  Expect({{kTokenizerConfig, R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})"}}, 1, 2);
  Expect({{kTokenizerConfig, R"({"bos_token": null, "eos_token": "</s>"})"}}, {}, 2);
}

TEST(SpecialTokensTest, AFileDecidesWhatTheOnesBeforeItDoNotSay) {
  Expect({{kTokenizerConfig, R"({"eos_token": "</s>"})"},
          {kSpecialTokensMap, R"({"bos_token": "<s>", "eos_token": "<s>"})"}},
         1, 2);
  Expect({{kGenerationConfig, R"({"bos_token_id": 7, "eos_token_id": [9, 8]})"}}, 7, 9);
  Expect({{kTokenizerConfig, R"({"bos_token": null})"},
          {kGenerationConfig, R"({"bos_token_id": 7, "eos_token_id": 9})"}},
         {}, 9);
  Expect({}, {}, {});
}

TEST(SpecialTokensTest, AModelMayEndATextWithAnyOfAList) {
  const auto special = Read({{kTokenizerConfig, R"({"eos_token": "</s>"})"},
                             {kGenerationConfig, R"({"eos_token_id": [9, 2, 8]})"}});
  ASSERT_TRUE(special.ok()) << special.status().ToString();
  EXPECT_EQ(special->eos, 2) << "documents end with the tokenizer's";
  for (const std::int32_t id : {2, 8, 9}) EXPECT_TRUE(special->Ends(id)) << id;
  EXPECT_FALSE(special->Ends(1));
  EXPECT_FALSE(SpecialTokens().Ends(0));
}

TEST(SpecialTokensTest, ABosThatTheTokenizerDoesNotWantIsLeftOut) {
  Expect(
      {{kTokenizerConfig, R"({"add_bos_token": false, "bos_token": "<s>", "eos_token": "</s>"})"}},
      {}, 2);
  Expect({{kTokenizerConfig, R"({"bos_token": "</s>", "eos_token": "</s>"})"}}, {}, 2);
}

TEST(SpecialTokensTest, WhatIsDamagedIsNamed) {
  const auto message = [](const Content& content) { return Read(content).status().message(); };
  EXPECT_EQ(message({{kTokenizerConfig, "[]"}}), "tokenizer_config.json is no JSON object");
  EXPECT_EQ(message({{kSpecialTokensMap, "{"}}), "special_tokens_map.json is no JSON object");
  EXPECT_THAT(message({{kTokenizerConfig, R"({"eos_token": 5})"}}),
              HasSubstr("tokenizer_config.json: eos_token is no token"));
  EXPECT_EQ(message({{kTokenizerConfig, R"({"eos_token": "<eos>"})"}}),
            "tokenizer_config.json: eos_token is <eos>, which tokenizer.json does not have");
  EXPECT_THAT(message({{kGenerationConfig, R"({"eos_token_id": "x"})"}}),
              HasSubstr("generation_config.json: eos_token_id is no id"));
  EXPECT_THAT(message({{kGenerationConfig, R"({"eos_token_id": []})"}}), HasSubstr("no id"));
}

TEST(SpecialTokensTest, AMapIsMadeOfAConfig) {
  EXPECT_EQ(SpecialTokensMap(R"({"eos_token": "</s>", "bos_token": null, "model_max_length": 9})"),
            "{\n  \"eos_token\": \"</s>\"\n}\n");
  EXPECT_EQ(SpecialTokensMap("no JSON"), "{}\n");
}

}  // namespace
}  // namespace swarm::data
