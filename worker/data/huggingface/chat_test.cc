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

/// Up to where an answer begins.
Result<std::string> Render(const TokenizerFiles& files, std::span<const ChatMessage> messages) {
  ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Compile(files));
  return chat.Render(messages, ChatEnd::kWhereAnswerBegins);
}

const std::vector<ChatMessage> kHello{{"user", " Hello é "}};

TEST(ChatTest, ATemplateOfTurnsBeginsWithItsDefaultAndEndsWhereTheAnswerBegins) {
  const TokenizerFiles files = WithTemplate(
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
      "{{ '<|im_start|>system\nBe kind<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
      "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
  EXPECT_EQ(*Render(files, kHello),
            "<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\n Hello é <|im_end|>\n"
            "<|im_start|>assistant\n");
  const std::vector<ChatMessage> two{{"system", "Be short"}, {"user", "Hi"}};
  EXPECT_EQ(*Render(files, two),
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
  EXPECT_EQ(*Render(files, kHello), "<s>HELLO ÉTrue1</s>");
}

TEST(ChatTest, WhatATemplateRefusesIsAnErrorInItsWords) {
  const auto refused =
      Render(WithTemplate("{{ raise_exception('roles must alternate') }}"), kHello);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("roles must alternate"));
  EXPECT_EQ(Render(WithTemplate("{% unknown %}"), kHello).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ChatTest, ATemplateWritesAnyNumberOfConversations) {
  const auto chat = ChatTemplate::Compile(WithTemplate(
      "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ ns.n }}"
      "{{ m.content }}{% endfor %}{% if add_generation_prompt %}?{% endif %}{{ eos_token }}"));
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  const std::vector<ChatMessage> two{{"user", "a"}, {"assistant", "b"}};
  EXPECT_EQ(*chat->Render(two, ChatEnd::kWithMessages), "1a2b</s>");
  EXPECT_EQ(*chat->Render(std::span(two).first(1), ChatEnd::kWhereAnswerBegins), "1a?</s>");
  EXPECT_EQ(*chat->Render(two, ChatEnd::kWithMessages), "1a2b</s>");
}

TEST(ChatTest, TheFileCountsBeforeTheConfigAndOfSeveralTheDefault) {
  TokenizerFiles files = Files(
      R"({"chat_template": [{"name": "other", "template": "x"},
                            {"name": "default", "template": "{{ messages[0].content }}"}]})");
  EXPECT_EQ(*Render(files, kHello), " Hello é ");
  files.files["chat_template.jinja"] = Bytes::Copy("file");
  EXPECT_EQ(*Render(files, kHello), "file");
  EXPECT_EQ(Render(Files("{}"), kHello).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Render(Files("["), kHello).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace swarm::data
