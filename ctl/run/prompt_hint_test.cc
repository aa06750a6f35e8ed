#include "ctl/run/prompt_hint.h"

#include <gtest/gtest.h>

#include "base/testing/temporary_folder.h"

namespace swarm::ctl {
namespace {

class PromptHintTest : public testing::Test {
 protected:
  static std::string At(const std::string& uri) { return SuggestPrompt({.data = {.uri = uri}}); }
  std::string Of(const std::string& text) { return At(folder_.Put("text", text)); }

  const TemporaryFolder folder_;
};

TEST_F(PromptHintTest, IsTheBeginningOfTheText) {
  EXPECT_EQ(Of("Call me Ishmael. Some years ago"), "Call me Ishmael.");
  EXPECT_EQ(Of("\n  word 0 and\nword 1"), "word 0 and");
  EXPECT_EQ(Of("One"), "One");
  EXPECT_EQ(At("file://" + folder_.Put("text", "Once upon a time")), "Once upon a");
}

TEST_F(PromptHintTest, OfAFolderItIsThatOfTheFirstText) {
  folder_.Put("data/b.txt", "second");
  folder_.Put("data/a.txt", "first");
  folder_.Put("data/0.bin", "ids");
  EXPECT_EQ(At(folder_ / "data"), "first");
}

TEST_F(PromptHintTest, IsSafeBetweenDoubleQuotes) {
  EXPECT_EQ(Of("He said \"no\" $HOME `ls`"), "He said");
  EXPECT_EQ(Of("\"Well\", he said"), "The");
  EXPECT_EQ(Of("price: $5"), "price:");
  EXPECT_EQ(Of("Es gen\xc3\xbcgt"), "Es");
}

TEST_F(PromptHintTest, IsAnIdForAModelOfIdsWithoutATokenizer) {
  api::Spec spec{.data = {.uri = folder_.Put("ids.bin", "abcd")}};
  EXPECT_EQ(SuggestPrompt(spec), "1");
  spec.model.tokenizer = {api::TokenizerKind::kHuggingFace, "tokenizer.json"};
  EXPECT_EQ(SuggestPrompt(spec), "The");
}

TEST_F(PromptHintTest, IsNeutralWhereThereIsNoTextToRead) {
  EXPECT_EQ(At("s3://bucket/data"), "The");
  EXPECT_EQ(At(folder_.Put("a.jsonl", "{\"text\": \"a\"}")), "The");
  EXPECT_EQ(At(folder_ / "absent"), "The");
  EXPECT_EQ(Of(""), "The");
  EXPECT_EQ(Of(std::string(1000, 'x')), "The");
}

}  // namespace
}  // namespace swarm::ctl
