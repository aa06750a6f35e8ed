#include "worker/data/corpus.h"

#include <gmock/gmock.h>

#include <sstream>

#include "base/testing/temporary_folder.h"
#include "worker/data/testing/compress.h"

namespace swarm::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename Id>
std::string Shard(std::initializer_list<Id> ids) {
  return {reinterpret_cast<const char*>(ids.begin()), ids.size() * sizeof(Id)};
}

class CorpusTest : public testing::Test {
 protected:
  TemporaryFolder folder_;

  CorpusOptions Options(const std::string& uri, std::uint64_t tokens_per_sequence = 1) {
    return {.uri = uri,
            .vocab_size = 256,
            .tokens_per_sequence = tokens_per_sequence,
            .tokenizer = MakeByteTokenizer()};
  }
  std::unique_ptr<Corpus> Open(const CorpusOptions& options) {
    auto corpus = Corpus::Open(options);
    EXPECT_TRUE(corpus.ok()) << corpus.status().ToString();
    return std::move(corpus).value();
  }
  void ExpectRefused(const CorpusOptions& options, const testing::Matcher<std::string>& message) {
    const Status status = Corpus::Open(options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(status.message(), message);
  }
};

TEST_F(CorpusTest, FilesOfAFolderAreConcatenatedInTheOrderOfTheirNames) {
  folder_.Put("b.txt", "cd");
  folder_.Put("a.txt", "ab");
  folder_.Put("c/d.bin", Shard<std::uint16_t>({1, 255}));
  folder_.Put("README.md", "not data");
  const auto corpus = Open(Options(folder_.path().string()));
  EXPECT_EQ(corpus->token_count(), 6u);
  EXPECT_THAT(*corpus->Read(0, 6), ElementsAre('a', 'b', 'c', 'd', 1, 255));
}

TEST_F(CorpusTest, RowsMayCrossTheJointsOfFiles) {
  folder_.Put("a.bin", Shard<std::uint16_t>({0, 1, 2}));
  folder_.Put("b.txt", "\x03");
  folder_.Put("c.bin", Shard<std::uint16_t>({4, 5, 6, 7}));
  const auto corpus = Open(Options(folder_.path().string()));
  EXPECT_THAT(*corpus->Read(0, 8), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(*corpus->Read(2, 3), ElementsAre(2, 3, 4));
}

TEST_F(CorpusTest, WideShardsHoldIdsAbove65535) {
  CorpusOptions options = Options(folder_.Put("a.bin", Shard<std::uint32_t>({7, 70000})));
  options.token_type = api::TokenType::kUInt32;
  options.vocab_size = 70001;
  EXPECT_THAT(*Open(options)->Read(0, 2), ElementsAre(7, 70000));
  options.vocab_size = 70000;
  ExpectRefused(options, AllOf(HasSubstr("id 70000 at position 1"), HasSubstr("tokenType")));
}

TEST_F(CorpusTest, TextOfAnotherTokenizerIsEncodedInPiecesAtLineEnds) {
  // Counts pieces: one id, the length of the text, for each call.
  class LengthTokenizer : public Tokenizer {
    Result<std::vector<std::vector<std::int32_t>>> EncodeAll(
        std::span<const std::string_view> texts) const override {
      std::vector<std::vector<std::int32_t>> all;
      for (const std::string_view text : texts) {
        EXPECT_TRUE(text.ends_with('\n'));
        all.push_back({static_cast<std::int32_t>(text.size())});
      }
      return all;
    }
    Result<std::string> Decode(std::span<const std::int32_t>) const override {
      return std::string();
    }
    std::int64_t vocab_size() const override { return 100000; }
  };
  std::string text;
  for (int line = 0; line < 1500; ++line) text += std::string(99, 'x') + "\n";
  CorpusOptions options = Options(folder_.Put("a.txt", text));
  options.tokenizer = std::make_shared<LengthTokenizer>();
  options.vocab_size = 100000;
  const auto corpus = Open(options);
  EXPECT_THAT(*corpus->Read(0, 3), ElementsAre(65600, 65600, 18800));
}

TEST_F(CorpusTest, TextThatIsNotUtf8IsRefusedWithItsPlace) {
  const std::string path = folder_.Put("a.txt", "one\ntwo\nth\xffree");
  ExpectRefused(Options(path), AllOf(HasSubstr(path), HasSubstr("byte 10, line 3")));
}

TEST_F(CorpusTest, AShardThatIsCutOffIsRefused) {
  const std::string path = folder_.Put("a.bin", "12345");
  ExpectRefused(Options(path),
                AllOf(HasSubstr(path), HasSubstr("cut off: 5 bytes"), HasSubstr("multiple of 2")));
}

TEST_F(CorpusTest, IdsThatTheModelDoesNotHaveAreRefused) {
  ExpectRefused(Options(folder_.Put("a.bin", Shard<std::uint16_t>({1, 2, 256}))),
                HasSubstr("id 256 at position 2"));
  CorpusOptions options = Options(folder_.Put("a.txt", "abc"));
  options.vocab_size = 100;
  ExpectRefused(options, HasSubstr("the tokenizer has 256 ids"));
}

// Ids of words, as long as they are; 1 before a document, 2 behind it.
class WordTokenizer : public Tokenizer {
  Result<std::vector<std::vector<std::int32_t>>> EncodeAll(
      std::span<const std::string_view> texts) const override {
    std::vector<std::vector<std::int32_t>> all;
    for (const std::string_view text : texts) {
      if (text == "unknown") return InvalidArgument("no id for unknown");
      std::istringstream words{std::string(text)};
      all.emplace_back();
      for (std::string word; words >> word;) {
        all.back().push_back(10 + static_cast<std::int32_t>(word.size()));
      }
    }
    return all;
  }
  Result<std::string> Decode(std::span<const std::int32_t>) const override { return std::string(); }
  std::int64_t vocab_size() const override { return 100; }
  SpecialTokens special() const override { return {1, 2}; }
};

TEST_F(CorpusTest, DocumentsOfJsonLinesStandBetweenBosAndEos) {
  CorpusOptions options = Options(folder_.Put(
      "a.jsonl", "{\"text\": \"a bb\", \"id\": 1}\n{\"text\": \"\"}\n{\"text\": \"ccc\"}\n"));
  options.tokenizer = std::make_shared<WordTokenizer>();
  const auto corpus = Open(options);
  EXPECT_THAT(*corpus->Read(0, 7), ElementsAre(1, 11, 12, 2, 1, 13, 2));
  EXPECT_EQ(corpus->token_count(), 7u);
  EXPECT_EQ(corpus->documents().read, 2u);
  EXPECT_TRUE(corpus->has_text());
}

TEST_F(CorpusTest, AFileOfTextIsOneDocument) {
  folder_.Put("data/a.txt", "a bb");
  folder_.Put("data/b.txt.zst", Zstd("ccc"));
  CorpusOptions options = Options(folder_ / "data");
  options.tokenizer = std::make_shared<WordTokenizer>();
  EXPECT_THAT(*Open(options)->Read(0, 7), ElementsAre(1, 11, 12, 2, 1, 13, 2));
}

TEST_F(CorpusTest, DocumentsAsBytesEndWithALineEnd) {
  CorpusOptions options =
      Options(folder_.Put("a.json.gz", Gzip("{\"content\": \"ab\"}\n{\"content\": \"c\"}")));
  options.documents.text_field = "content";
  EXPECT_THAT(*Open(options)->Read(0, 5), ElementsAre('a', 'b', '\n', 'c', '\n'));
}

TEST_F(CorpusTest, JsonLinesOfAnotherFieldAreRefusedWithFileAndLine) {
  const std::string path = folder_.Put("a.jsonl", "{\"text\": \"a\"}\n{\"content\": \"b\"}\n");
  ExpectRefused(Options(path),
                AllOf(HasSubstr(path + ": line 2: has no field text; it has content")));
}

TEST_F(CorpusTest, BadDocumentsEndTheJobOrAreCounted) {
  const std::string path = folder_.Put("a.jsonl",
                                       "{\"text\": \"a\"}\n{\"text\": \"unknown\"}\n"
                                       "{\"text\": \"b\xff\"}\n{\"text\": \"cc\"}\n{\"text\": \"d");
  CorpusOptions options = Options(path);
  options.tokenizer = std::make_shared<WordTokenizer>();
  ExpectRefused(options, HasSubstr(path + ": line 3: is not UTF-8, at byte 11"));
  options.documents.on_bad_document = api::OnBadDocument::kSkip;
  const auto corpus = Open(options);
  EXPECT_THAT(*corpus->Read(0, 6), ElementsAre(1, 11, 2, 1, 12, 2));
  EXPECT_EQ(corpus->documents().read, 2u);
  EXPECT_EQ(corpus->documents().skipped, 3u);
  EXPECT_THAT(corpus->documents().TextOfSkipped(),
              HasSubstr("3 of 5 documents were skipped, the first is " + path + ": line 3"));
}

TEST_F(CorpusTest, ADocumentThatTheTokenizerCannotEncodeIsNamed) {
  const std::string path = folder_.Put("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"unknown\"}\n");
  CorpusOptions options = Options(path);
  options.tokenizer = std::make_shared<WordTokenizer>();
  ExpectRefused(options, HasSubstr(path + ": line 2: no id for unknown"));
}

TEST_F(CorpusTest, ACorpusWhoseDocumentsAreAllSkippedSaysWhy) {
  CorpusOptions options = Options(folder_.Put("a.jsonl", "{\"body\": \"a\"}\n{\"body\": \"b\"}\n"));
  options.documents.on_bad_document = api::OnBadDocument::kSkip;
  ExpectRefused(options, AllOf(HasSubstr("holds 0 tokens"), HasSubstr("2 of 2 documents"),
                               HasSubstr("has no field text; it has body")));
}

TEST_F(CorpusTest, ACompressedFileThatIsCutOffIsNamed) {
  const std::string whole = Gzip("{\"text\": \"a text of some length\"}\n");
  const std::string path = folder_.Put("a.jsonl.gz", whole.substr(0, whole.size() - 9));
  const Status status = Corpus::Open(Options(path)).status();
  EXPECT_THAT(status.message(), HasSubstr(path + ": the compressed file is cut off"));
}

TEST_F(CorpusTest, TextWithoutATokenizerIsRefusedAndIdsAreNot) {
  CorpusOptions options = Options(folder_.Put("a.jsonl", "{\"text\": \"abc\"}"));
  options.tokenizer = nullptr;
  ExpectRefused(options, HasSubstr("there is no tokenizer"));
  options.uri = folder_.Put("a.bin", Shard<std::uint16_t>({1, 2, 3}));
  EXPECT_FALSE(Open(options)->has_text());
}

TEST_F(CorpusTest, AFileThatIsNamedIsTextWhateverItIsCalled) {
  const auto corpus = Open(Options(folder_.Put("README.md", "0123456789")));
  EXPECT_EQ(corpus->token_count(), 10u);
}

TEST_F(CorpusTest, WhatHoldsNoDataIsRefused) {
  ExpectRefused(Options(folder_.path().string()), HasSubstr("holds no files of text"));
  ExpectRefused(Options(folder_.Put("empty.txt", "")), HasSubstr("is empty"));
  ExpectRefused(Options(folder_.Put("short.txt", "abc"), 4),
                AllOf(HasSubstr("holds 3 tokens"), HasSubstr("need 4")));
  EXPECT_EQ(Corpus::Open(Options(folder_ / "absent.txt")).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace swarm::data
