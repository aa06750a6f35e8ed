#include "worker/data/tokenizer.h"

#include <gmock/gmock.h>
#include <sentencepiece_trainer.h>

#include "base/rng.h"
#include "base/testing/temporary_folder.h"
#include "worker/storage/file/file_storage.h"

namespace swarm::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TokenizerTest, BytesAreTheirOwnIds) {
  const auto tokenizer = MakeByteTokenizer();
  EXPECT_THAT(*tokenizer->Encode("aé"), ElementsAre(97, 0xc3, 0xa9));
  EXPECT_EQ(*tokenizer->Decode(std::vector<std::int32_t>{97, 0xc3, 0xa9}), "aé");
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_THAT(tokenizer->Decode(std::vector<std::int32_t>{1, 256}).status().message(),
              HasSubstr("id 256 at position 1"));
}

// A model of 64 pieces, trained on sentences of a few made-up words.
Bytes TrainModel(const TemporaryFolder& folder) {
  constexpr std::array kWords = {"swarm", "stage", "worker", "gradient", "token", "spot"};
  Rng rng(1);
  std::string text;
  for (int line = 0; line < 400; ++line) {
    for (int word = 0; word < 8; ++word) text += std::string(kWords[rng.Below(6)]) + " ";
    text += '\n';
  }
  const std::string prefix = folder / "tiny";
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--input=" + folder.Put("text.txt", text) + " --model_prefix=" + prefix +
      " --vocab_size=64 --model_type=bpe --minloglevel=2");
  SWARM_CHECK(status.ok(), status.ToString());
  return *storage::MapFile(prefix + ".model");
}

TEST(TokenizerTest, ASentencePieceModelEncodesAndDecodes) {
  const TemporaryFolder folder;
  const auto tokenizer = MakeSentencePieceTokenizer(TrainModel(folder));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->vocab_size(), 64);
  const std::string text = "spot worker gradient";
  const auto ids = *(*tokenizer)->Encode(text);
  EXPECT_LT(ids.size(), text.size() / 2);
  EXPECT_EQ(*(*tokenizer)->Decode(ids), text);
  EXPECT_THAT((*tokenizer)->Decode(std::vector<std::int32_t>{64}).status().message(),
              HasSubstr("id 64 at position 0"));
}

TEST(TokenizerTest, TheTokenizerOfAJobIsOpenedByItsUri) {
  const TemporaryFolder folder;
  TrainModel(folder);
  const auto open = [](api::TokenizerKind kind, const std::string& uri) {
    return OpenTokenizer({kind, uri}, {});
  };
  constexpr auto kKind = api::TokenizerKind::kSentencePiece;
  EXPECT_EQ((*open(api::TokenizerKind::kByte, ""))->vocab_size(), 256);
  EXPECT_EQ((*open(kKind, "file://" + (folder / "tiny.model")))->vocab_size(), 64);
  const Status status = open(kKind, folder / "text.txt").status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("text.txt"));
  EXPECT_FALSE(open(kKind, "").ok());
}

TEST(TokenizerTest, WhatIsNoModelIsRefused) {
  for (const char* content : {"", "this is no model"}) {
    EXPECT_EQ(MakeSentencePieceTokenizer(Bytes::Copy(content)).status().code(),
              StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace swarm::data
