// Against the fixtures that tests/fixtures/make_tokenizers.py made with the Python package. The
// test tokenizers_equal_python compares many more documents.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/files.h"
#include "base/testing/temporary_folder.h"
#include "worker/data/tokenizer.h"

namespace swarm::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kFixtures = std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/tokenizers/";

std::shared_ptr<const Tokenizer> Open(const std::string& uri) {
  auto tokenizer = OpenTokenizer({api::TokenizerKind::kHuggingFace, uri}, {});
  SWARM_CHECK(tokenizer.ok(), tokenizer.status().ToString());
  return *std::move(tokenizer);
}

class HuggingFaceTokenizerTest : public testing::TestWithParam<const char*> {
 protected:
  const std::shared_ptr<const Tokenizer> tokenizer_ = Open(kFixtures + GetParam());
  const nlohmann::json expected_ =
      nlohmann::json::parse(*ReadFile(kFixtures + GetParam() + "/expected.json"));
};

TEST_P(HuggingFaceTokenizerTest, IdsAndTextsAreThoseOfThePythonPackage) {
  std::vector<std::string> texts;
  for (const auto& one : expected_) texts.push_back(one["text"]);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto all = tokenizer_->EncodeAll(views);
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto ids = expected_[i]["ids"].get<std::vector<std::int32_t>>();
    EXPECT_EQ((*all)[i], ids) << texts[i];
    EXPECT_EQ(*tokenizer_->Encode(texts[i]), ids) << texts[i];
    EXPECT_EQ(*tokenizer_->Decode(ids), expected_[i]["decoded"].get<std::string>()) << texts[i];
  }
}

TEST_P(HuggingFaceTokenizerTest, ManyThreadsMayUseIt) {
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this] {
      for (const auto& one : expected_) {
        EXPECT_EQ(*tokenizer_->Encode(one["text"].get<std::string>()),
                  one["ids"].get<std::vector<std::int32_t>>());
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(, HuggingFaceTokenizerTest,
                         testing::Values("gpt2", "llama2", "llama3", "qwen", "unigram"),
                         [](const auto& info) { return std::string(info.param); });

TEST(HuggingFaceFilesTest, TheConfigBesideItGivesTheSpecialTokens) {
  const auto gpt2 = Open(kFixtures + "gpt2/tokenizer.json");
  EXPECT_FALSE(gpt2->special().bos) << "it is EOS, too";
  EXPECT_EQ(gpt2->special().eos, gpt2->Encode("<|endoftext|>")->front());
  const auto llama2 = Open(kFixtures + "llama2");
  EXPECT_EQ(llama2->special().bos, 1);
  EXPECT_EQ(llama2->special().eos, 2);
  EXPECT_EQ(llama2->vocab_size(), 857);
  EXPECT_EQ(*llama2->Decode(std::vector<std::int32_t>{1, 2}), "");
  EXPECT_THAT(llama2->Decode(std::vector<std::int32_t>{1, 857}).status().message(),
              HasSubstr("id 857 at position 1, the tokenizer has 857 ids"));
}

TEST(HuggingFaceFilesTest, BadFilesAndBadTextsAreRefused) {
  const TemporaryFolder folder;
  const auto open = [](const std::string& uri) {
    return OpenTokenizer({api::TokenizerKind::kHuggingFace, uri}, {}).status();
  };
  const Status damaged = open(folder.Put("damaged/tokenizer.json", "{\"model\": 1}"));
  EXPECT_EQ(damaged.code(), StatusCode::kDataLoss);
  EXPECT_THAT(damaged.message(),
              AllOf(HasSubstr("damaged/tokenizer.json"), HasSubstr("makes no tokenizer")));
  EXPECT_EQ(open(folder.path().string()).code(), StatusCode::kNotFound);
  const auto gpt2 = Open(kFixtures + "gpt2");
  EXPECT_EQ(gpt2->Encode("\xff").status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(gpt2->Encode("")->empty());
}

// A tokenizer without an id for what it does not know cannot encode it.
TEST(HuggingFaceFilesTest, ATextThatHasNoIdsIsAnError) {
  const TemporaryFolder folder;
  const auto words = Open(folder.Put("tokenizer.json", R"({
    "version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "vocab": {"known": 0}, "unk_token": "[UNK]"}})"));
  EXPECT_EQ(*words->Encode("known known"), (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(words->Encode("known other").status().code(), StatusCode::kInvalidArgument);
}

TEST(TokenizerFilesTest, AFolderHasTheTokenizerThatItsFilesAre) {
  const TemporaryFolder folder;
  EXPECT_EQ(FindTokenizer(folder.path().string(), {})->kind, api::TokenizerKind::kAuto);
  folder.Put("tokenizer.model", "x");
  EXPECT_EQ(FindTokenizer(folder.path().string(), {})->uri, folder / "tokenizer.model");
  folder.Put("tokenizer.json", "x");
  EXPECT_EQ(FindTokenizer(folder.path().string(), {})->kind, api::TokenizerKind::kHuggingFace);
}

TEST(TokenizerFilesTest, FilesThatAreWrittenAreFoundAgainAndTransformersHasAllThatItWants) {
  const TemporaryFolder folder;
  const auto files = ReadTokenizerFiles(
      {api::TokenizerKind::kHuggingFace, kFixtures + "llama2/tokenizer.json"}, {});
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  const auto storage = *storage::Storage::Open(folder.path().string());
  ASSERT_TRUE(WriteTokenizerFiles(ForTransformers(*files), *storage, "model/").ok());
  const auto copy = Open(folder / "model");
  EXPECT_EQ(*copy->Encode("one two"), *Open(kFixtures + "llama2")->Encode("one two"));
  EXPECT_EQ(copy->special().eos, 2);
  EXPECT_THAT(folder.Get("model/special_tokens_map.json"), HasSubstr("\"eos_token\": \"</s>\""));
}

// Published models of Llama 2's kind and Gemma have both, and llama.cpp reads the latter.
TEST(TokenizerFilesTest, ASentencePieceModelBesideATokenizerJsonGoesWithIt) {
  const TemporaryFolder folder;
  folder.Put("from/tokenizer.json", "{}");
  folder.Put("from/tokenizer.model", "pieces");
  const auto files = ReadTokenizerFiles({api::TokenizerKind::kHuggingFace, folder / "from"}, {});
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  const auto storage = *storage::Storage::Open(folder.path().string());
  ASSERT_TRUE(WriteTokenizerFiles(ForTransformers(*files), *storage, "to/").ok());
  EXPECT_EQ(folder.Get("to/tokenizer.model"), "pieces");
  EXPECT_EQ(FindTokenizer(folder / "to", {})->kind, api::TokenizerKind::kHuggingFace);
}

}  // namespace
}  // namespace swarm::data
