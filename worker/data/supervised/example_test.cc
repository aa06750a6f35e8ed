#include "worker/data/supervised/example.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/testing/temporary_folder.h"
#include "worker/data/corpus.h"
#include "worker/data/supervised/example_packer.h"
#include "worker/token.h"

namespace swarm::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Qwen 2.5's, without tools.
constexpr const char* kChatMl =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";
// As Qwen 3's: the last answer has its thoughts, and earlier ones have not.
constexpr const char* kThinking =
    "{% for m in messages %}{{'<|im_start|>' + m.role + '\n'}}"
    "{% if m.role == 'assistant' and loop.last %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
    "{{ m.content.strip() + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

ChatTemplate WithTemplate(const std::string& source) {
  return *ChatTemplate::Compile(
      {api::TokenizerKind::kHuggingFace, {{"chat_template.jinja", Bytes::Copy(source)}}});
}

const std::vector<ChatMessage> kTwoTurns{{"system", "Be kind"},
                                         {"user", "Hi"},
                                         {"assistant", "Hello"},
                                         {"user", "2+2?"},
                                         {"assistant", "4"}};

std::string ErrorOf(const Status& status) {
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
  return status.message();
}

TEST(ExampleTest, OfAPromptAndACompletionTheSecondIsLearned) {
  const auto example =
      ReadPromptCompletion(R"({"completion": " 4", "id": 7, "prompt": "2 + 2 ="})");
  ASSERT_TRUE(example.ok()) << example.status().ToString();
  EXPECT_THAT(*example, ElementsAre(ExamplePart{"2 + 2 =", false}, ExamplePart{" 4", true}));
  EXPECT_EQ(ErrorOf(ReadPromptCompletion(R"({"prompt": "x"})").status()), "has no completion");
  EXPECT_EQ(ErrorOf(ReadPromptCompletion(R"({"prompt": 1, "completion": "x"})").status()),
            "has as prompt a number, no text");
  EXPECT_EQ(ErrorOf(ReadPromptCompletion(R"({"prompt": "cut)").status()),
            "ends in the middle of its JSON object; is the file cut off?");
  EXPECT_EQ(ErrorOf(ReadPromptCompletion("[1]").status()), "is a list, no JSON object");
  EXPECT_EQ(ErrorOf(ReadPromptCompletion("{\"prompt\": \"\xff\"}").status()),
            "is not UTF-8, at byte 12");
}

TEST(ExampleTest, MessagesThatWouldLoseSomethingAreRefused) {
  const auto error = [](const std::string& messages) {
    return ErrorOf(ReadMessages(R"({"messages": )" + messages + "}").status());
  };
  EXPECT_EQ(error("1"), "has no list messages");
  EXPECT_EQ(ErrorOf(ReadMessages(R"({"conversations": []})").status()), "has no list messages");
  EXPECT_EQ(error("[]"), "has no message of the assistant");
  EXPECT_EQ(error(R"([{"role": "user", "content": "x"}])"), "has no message of the assistant");
  EXPECT_EQ(error(R"([{"role": "assistant", "content": "x"}])"),
            "begins with a message of the assistant");
  EXPECT_EQ(error(R"([{"role": "user", "content": ["x"]}])"),
            "message 1 has as content a array, no text");
  EXPECT_EQ(error(R"([{"role": "user", "content": "x"}, "y"])"), "message 2 is no object");
  EXPECT_EQ(error(R"([{"role": "user", "content": "x"},
                      {"role": "assistant", "content": "", "tool_calls": []}])"),
            "message 2 has tool_calls, which is not supported");
}

TEST(ExampleTest, OfAConversationTheAnswersAreLearnedWithTheMarksThatEndThem) {
  const auto example = RenderExample(WithTemplate(kChatMl), kTwoTurns);
  ASSERT_TRUE(example.ok()) << example.status().ToString();
  EXPECT_THAT(
      *example,
      ElementsAre(ExamplePart{"<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\nHi"
                              "<|im_end|>\n<|im_start|>assistant\n",
                              false},
                  ExamplePart{"Hello<|im_end|>", true},
                  ExamplePart{"\n<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n", false},
                  ExamplePart{"4<|im_end|>", true}));
}

TEST(ExampleTest, AnAnswerIsFoundWhereATemplateWritesItInAnotherWayLater) {
  const auto example = RenderExample(WithTemplate(kThinking), kTwoTurns);
  ASSERT_TRUE(example.ok()) << example.status().ToString();
  ASSERT_EQ(example->size(), 4u);
  EXPECT_EQ((*example)[1].text, "Hello<|im_end|>");
  EXPECT_EQ((*example)[3].text, "<think>\n\n</think>\n\n4<|im_end|>");
}

TEST(ExampleTest, ATemplateThatHidesAnAnswerMakesABadExample) {
  const auto hidden = RenderExample(
      WithTemplate("{% for m in messages %}{{ m.role if loop.last else m.content }}{% endfor %}"),
      kTwoTurns);
  EXPECT_THAT(ErrorOf(hidden.status()), HasSubstr("writes message 3 otherwise"));
}

TEST(ExamplePackerTest, EachExampleLiesWholeWhereItLeavesTheLeastRoom) {
  ExamplePacker packer(5);
  packer.Add({1, 1, 1});
  packer.Add({2, 2, 2, 2});
  packer.Add({3});     // behind the second
  packer.Add({4, 4});  // behind the first
  packer.Add({5, 5, 5, 5});
  const Bytes packed = packer.Take();
  const auto* tokens = reinterpret_cast<const std::int32_t*>(packed.data());
  const std::int32_t fill = Token{.learned = false}.Write();
  EXPECT_THAT(std::vector<std::int32_t>(tokens, tokens + packed.size() / 4),
              ElementsAre(2, 2, 2, 2, 3, 1, 1, 1, 4, 4, 5, 5, 5, 5, fill));
  EXPECT_THAT(packer.Take(), IsEmpty());
}

class ExampleCorpusTest : public testing::Test {
 protected:
  CorpusOptions Options(const std::string& uri, std::uint64_t length) {
    return {.uri = uri,
            .vocab_size = 256,
            .tokens_per_sequence = length + 1,
            .tokenizer = MakeByteTokenizer(),
            .documents = {.format = api::DataFormat::kPromptCompletion,
                          .view = api::DocumentView::kSeparate,
                          .tokens_per_sequence = length}};
  }
  TemporaryFolder folder_;
};

TEST_F(ExampleCorpusTest, PromptsAndWhatFillsASequenceAreNotLearned) {
  const std::string uri = folder_.Put("a.jsonl",
                                      "{\"prompt\": \"ab\", \"completion\": \"c\"}\n"
                                      "{\"prompt\": \"d\", \"completion\": \"ef\"}\n"
                                      "{\"prompt\": \"gh\", \"completion\": \"i\"}\n");
  const auto corpus = Corpus::Open(Options(uri, 9));
  ASSERT_TRUE(corpus.ok()) << corpus.status().ToString();
  ASSERT_EQ((*corpus)->token_count(), 19u);
  std::string ids, begins, learned;
  const auto tokens = (*corpus)->Read(0, 19);
  for (const std::int32_t written : *tokens) {
    const Token token = Token::Read(written);
    ids += token.id == 0 ? '.' : static_cast<char>(token.id);
    begins += token.begins ? '^' : ' ';
    learned += token.learned ? '*' : ' ';
  }
  EXPECT_EQ(ids, "abc\ndef\n.ghi\n......");
  EXPECT_EQ(begins, "^   ^    ^         ");
  EXPECT_EQ(learned, "  ** ***   **      ");
  EXPECT_EQ((*corpus)->CountLearned(1, 9), 5u);
  EXPECT_EQ((*corpus)->CountLearned(10, 9), 2u);
}

TEST_F(ExampleCorpusTest, WhatIsTooLongOrTeachesNothingIsABadExample) {
  const std::string long_one =
      nlohmann::json{{"prompt", std::string(20, 'x')}, {"completion", "y"}}.dump() + "\n";
  const std::string good = "{\"prompt\": \"a\", \"completion\": \"bcdefg\"}\n";
  CorpusOptions options = Options(folder_.Put("a.jsonl", good + long_one), 8);
  EXPECT_THAT(ErrorOf(Corpus::Open(options).status()),
              HasSubstr("a.jsonl: line 2: has 22 tokens, and training.sequenceLength is 8"));
  options.documents.on_bad_document = api::OnBadDocument::kSkip;
  const auto corpus = Corpus::Open(options);
  ASSERT_TRUE(corpus.ok()) << corpus.status().ToString();
  EXPECT_EQ((*corpus)->documents().skipped, 1u);
  EXPECT_EQ((*corpus)->token_count(), 9u);
  options = Options(folder_.Put("b.jsonl", "{\"prompt\": \"a\", \"completion\": \"\"}\n"), 8);
  EXPECT_THAT(ErrorOf(Corpus::Open(options).status()),
              HasSubstr("b.jsonl: line 1: has nothing to learn"));
}

TEST_F(ExampleCorpusTest, ExamplesAreNotMixedWithOtherFilesInOneSource) {
  folder_.Put("a.jsonl", "{\"prompt\": \"a\", \"completion\": \"bcdefg\"}\n");
  folder_.Put("b.txt", "text");
  EXPECT_THAT(ErrorOf(Corpus::Open(Options(folder_.path().string(), 8)).status()),
              AllOf(HasSubstr("has examples, and also files without"), HasSubstr("data.sources")));
}

}  // namespace
}  // namespace swarm::data
