// The expected texts are those of transformers' apply_chat_template (jinja2).
#include "worker/data/huggingface/chat.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace swarm::data {
namespace {

using testing::HasSubstr;

TokenizerFiles Files(const std::string& config) {
  return {api::TokenizerKind::kHuggingFace, {{"tokenizer_config.json", Bytes::Copy(config)}}};
}

TokenizerFiles WithTemplate(const std::string& source) {
  return Files(nlohmann::json{{"bos_token", {{"content", "<s>"}}},
                              {"eos_token", "</s>"},
                              {"chat_template", source}}
                   .dump());
}

const std::vector<ChatMessage> kHello{{"user", " Hello é "}};

TEST(ChatTest, ATemplateOfTurnsBeginsWithItsDefaultAndEndsWhereTheAnswerBegins) {
  const TokenizerFiles files = WithTemplate(
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
      "{{ '<|im_start|>system\nBe kind<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
      "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
  EXPECT_EQ(*RenderChat(files, kHello),
            "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\n Hello é <|im_end|>\n"
            "<|im_start|>assistant\n");
  const std::vector<ChatMessage> two{{"system", "Be short"}, {"user", "Hi"}};
  EXPECT_EQ(*RenderChat(files, two),
            "<|im_start|>system\nBe short<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(ChatTest, PythonsMethodsAndTheBlocksOfTransformersWork) {
  const TokenizerFiles files = WithTemplate(
      "{%- if tools is not none %}tools{% endif %}\n"
      "{{- bos_token }}\n"
      "{%- set ns = namespace(turns=0) %}\n"
      "{%- for message in messages[::-1] %}\n"
      "    {%- if message.role == 'tool' %}{% continue %}{% endif %}\n"
      "    {%- set ns.turns = ns.turns + 1 %}\n"
      "    {{- message.content.strip().upper() | trim }}{{ message.role.startswith('us') }}\n"
      "    {%- generation %}{{ ns.turns }}{% endgeneration %}\n"
      "{%- endfor %}\n"
      "{%- if documents is not none %}documents{% endif %}{{ eos_token }}\n");
  EXPECT_EQ(*RenderChat(files, kHello), "<s>HELLO ÉTrue1</s>");
}

TEST(ChatTest, WhatATemplateRefusesIsAnErrorInItsWords) {
  const auto refused =
      RenderChat(WithTemplate("{{ raise_exception('roles must alternate') }}"), kHello);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("roles must alternate"));
  EXPECT_EQ(RenderChat(WithTemplate("{% unknown %}"), kHello).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ChatTest, TheFileCountsBeforeTheConfigAndOfSeveralTheDefault) {
  TokenizerFiles files = Files(
      R"({"chat_template": [{"name": "other", "template": "x"},
                            {"name": "default", "template": "{{ messages[0].content }}"}]})");
  EXPECT_EQ(*RenderChat(files, kHello), " Hello é ");
  files.files["chat_template.jinja"] = Bytes::Copy("file");
  EXPECT_EQ(*RenderChat(files, kHello), "file");
  EXPECT_EQ(RenderChat(Files("{}"), kHello).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(RenderChat(Files("["), kHello).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace swarm::data
