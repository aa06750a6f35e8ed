// The files are those of tests/fixtures/make_parquet.py.
#include <gmock/gmock.h>

#include "base/files.h"
#include "base/testing/temporary_folder.h"
#include "worker/data/corpus.h"
#include "worker/data/parquet/parquet_module.h"

namespace swarm::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class ParquetTest : public testing::Test {
 protected:
  using Numbered = std::pair<std::uint64_t, std::string>;

  static std::string Fixture(const std::string& name) {
    return std::string(SWARM_SOURCE_DIR) + "/tests/fixtures/parquet/" + name;
  }
  static std::string ContentOf(const std::string& name) { return *ReadFile(Fixture(name)); }

  Status Read(const std::string& content, const std::string& column) {
    return ReadParquet(Bytes::Copy(content), column, Taking());
  }
  Status ReadObjects(const std::string& name, const std::vector<std::string>& columns) {
    return ReadParquetObjects(Bytes::Copy(ContentOf(name)), columns, Taking());
  }
  DocumentHandlers Taking() {
    documents_.clear();
    bad_.clear();
    const auto take = [](std::vector<Numbered>& to) {
      return [&to](auto text, std::uint64_t row) {
        if constexpr (std::is_same_v<decltype(text), Status>) {
          to.emplace_back(row, text.message());
        } else {
          to.emplace_back(row, text);
        }
        return Status();
      };
    };
    return {.document = take(documents_), .bad = take(bad_)};
  }
  /// With byte tokens and sequences of 64.
  CorpusOptions ExampleOptions(const std::string& uri, api::DataFormat format) {
    return {.uri = uri,
            .vocab_size = 256,
            .tokens_per_sequence = 65,
            .tokenizer = MakeByteTokenizer(),
            .documents = {.format = format,
                          .on_bad_document = api::OnBadDocument::kSkip,
                          .tokens_per_sequence = 64,
                          .tokenizer_files = {api::TokenizerKind::kHuggingFace,
                                              {{"chat_template.jinja",
                                                Bytes::Copy("{% for m in messages %}{{ m.role + "
                                                            "':' + m.content + '.' }}{% endfor %}"
                                                            "{% if add_generation_prompt %}"
                                                            "{{ 'assistant:' }}{% endif %}")}}}}};
  }

  std::vector<Numbered> documents_, bad_;
  TemporaryFolder folder_;
};

TEST_F(ParquetTest, EachRowIsADocumentAndOneWithoutTextIsBad) {
  for (const auto& [file, column] :
       {std::pair("texts.parquet", "text"), std::pair("large.parquet", "content")}) {
    ASSERT_TRUE(Read(ContentOf(file), column).ok()) << file;
    EXPECT_THAT(documents_, ElementsAre(Pair(1, "first"), Pair(2, "a line\nand another"),
                                        Pair(4, ""), Pair(5, "größer 😀"), Pair(6, "last")));
    EXPECT_THAT(bad_, ElementsAre(Pair(3, "has no text")));
  }
}

TEST_F(ParquetTest, BytesThatAreNotUtf8AreABadDocument) {
  ASSERT_TRUE(Read(ContentOf("bytes.parquet"), "text").ok());
  EXPECT_THAT(documents_, ElementsAre(Pair(1, "good"), Pair(3, "good again")));
  EXPECT_THAT(bad_, ElementsAre(Pair(2, "is not UTF-8, at byte 4")));
}

TEST_F(ParquetTest, AnotherColumnIsNamedWithThoseThatAreThere) {
  const std::string content = ContentOf("texts.parquet");
  EXPECT_EQ(Read(content, "content").message(),
            "has no column content; it has id, text, meta; data.textField names another");
  EXPECT_EQ(Read(content, "id").message(),
            "the column id has values of the type int64, no text; data.textField names another");
  EXPECT_THAT(Read(content, "meta").message(), HasSubstr("of the type struct<text: string>"));
  EXPECT_EQ(Read(content, "id").code(), StatusCode::kInvalidArgument);
}

TEST_F(ParquetTest, RowsOfSeveralColumnsAreTheObjectsThatLinesOfJsonWouldBe) {
  ASSERT_TRUE(ReadObjects("prompts.parquet", {"prompt", "completion"}).ok());
  EXPECT_THAT(documents_,
              ElementsAre(Pair(1, R"({"completion":" 4","prompt":"2 + 2 ="})"),
                          Pair(2, R"({"prompt":"1 + 1 ="})"),
                          Pair(3, R"({"completion":" größer","prompt":"3 is"})")));
  ASSERT_TRUE(ReadObjects("chats.parquet", {"messages"}).ok());
  ASSERT_EQ(documents_.size(), 5u);
  EXPECT_EQ(documents_[1].second, R"({"messages":[{"content":"Hi","role":"user"}]})");
  EXPECT_THAT(documents_[2].second, HasSubstr(R"({"content":"2+2?","name":"Ada","role":"user"})"));
  EXPECT_EQ(documents_[4].second, "{}");
  ASSERT_TRUE(ReadObjects("bytes.parquet", {"text"}).ok());
  EXPECT_THAT(bad_, ElementsAre(Pair(2, "text: is not UTF-8, at byte 4")));

  EXPECT_THAT(ReadObjects("texts.parquet", {"text", "prompt"}).message(),
              HasSubstr("has no column prompt; it has id, text, meta; data.format"));
  EXPECT_THAT(ReadObjects("chats.parquet", {"scores"}).message(),
              HasSubstr("the column scores has values of the type list"));
}

TEST_F(ParquetTest, ExamplesOfParquetAreThoseOfTheSameJsonLines) {
  const auto compare = [&](const std::string& name, api::DataFormat format,
                           const std::string& lines) {
    const auto parquet = Corpus::Open(ExampleOptions(Fixture(name), format));
    ASSERT_TRUE(parquet.ok()) << parquet.status().ToString();
    const auto json = Corpus::Open(ExampleOptions(folder_.Put("same.jsonl", lines), format));
    ASSERT_TRUE(json.ok()) << json.status().ToString();
    EXPECT_TRUE((*parquet)->has_examples());
    EXPECT_EQ(*(*parquet)->Read(0, (*parquet)->token_count()),
              *(*json)->Read(0, (*json)->token_count()));
  };
  compare("prompts.parquet", api::DataFormat::kPromptCompletion,
          "{\"prompt\": \"2 + 2 =\", \"completion\": \" 4\"}\n"
          "{\"prompt\": \"3 is\", \"completion\": \" größer\"}\n");
  compare("chats.parquet", api::DataFormat::kChat,
          R"({"messages": [{"role": "user", "content": "Hi"}, )"
          R"({"role": "assistant", "content": "Hello"}]})"
          "\n"
          R"({"messages": [{"role": "user", "content": "3?"}, )"
          R"({"role": "assistant", "content": "größer"}]})"
          "\n");

  CorpusOptions options =
      ExampleOptions(Fixture("prompts.parquet"), api::DataFormat::kPromptCompletion);
  options.documents.on_bad_document = api::OnBadDocument::kFail;
  EXPECT_THAT(Corpus::Open(options).status().message(),
              HasSubstr("prompts.parquet: row 2: has no completion"));
  options = ExampleOptions(Fixture("chats.parquet"), api::DataFormat::kChat);
  EXPECT_THAT((*Corpus::Open(options))->documents().first_skipped,
              HasSubstr("chats.parquet: row 2: has no message of the assistant"));
  options.uri = Fixture("texts.parquet");
  EXPECT_THAT(Corpus::Open(options).status().message(), HasSubstr("has no column messages"));
}

TEST_F(ParquetTest, AFileThatIsCutOffOrDamagedIsToldFromAGoodOne) {
  const std::string content = ContentOf("tales.parquet");
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{3}, content.size() / 2, content.size() - 1}) {
    const Status status = Read(content.substr(0, size), "text");
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << size << ": " << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("damaged or cut off"));
  }
  // In the pages of the second group of a hundred rows; what was read before stands.
  std::string damaged = content;
  damaged.replace(content.size() * 2 / 5, 40, 40, '\x7f');
  const Status status = Read(damaged, "text");
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("behind row 100: "));
  EXPECT_EQ(documents_.size(), 100u);
  EXPECT_EQ(Read("{\"text\": \"no Parquet\"}", "text").code(), StatusCode::kDataLoss);
}

TEST_F(ParquetTest, AnErrorOfAHandlerEndsTheReading) {
  int count = 0;
  const Status status =
      ReadParquet(Bytes::Copy(ContentOf("texts.parquet")), "text",
                  {.document = [&](std::string, std::uint64_t) { return ++count, Status(); },
                   .bad = [](const Status& reason, std::uint64_t) { return reason; }});
  EXPECT_EQ(status.message(), "has no text");
  EXPECT_EQ(count, 2);
}

TEST_F(ParquetTest, ACorpusOfParquetHasTheTokensOfTheSameTextInJsonLines) {
  CorpusOptions options{.uri = Fixture("texts.parquet"),
                        .vocab_size = 256,
                        .tokens_per_sequence = 1,
                        .tokenizer = MakeByteTokenizer(),
                        .documents = {.on_bad_document = api::OnBadDocument::kSkip}};
  const auto parquet = Corpus::Open(options);
  ASSERT_TRUE(parquet.ok()) << parquet.status().ToString();
  EXPECT_EQ((*parquet)->documents().read, 4u);
  EXPECT_THAT((*parquet)->documents().TextOfSkipped(),
              HasSubstr("1 of 5 documents were skipped, the first is " + options.uri +
                        ": row 3: has no text"));
  options.uri = folder_.Put("same.jsonl",
                            "{\"text\": \"first\"}\n{\"text\": \"a line\\nand another\"}\n"
                            "{\"text\": \"größer 😀\"}\n{\"text\": \"last\"}\n");
  const auto lines = Corpus::Open(options);
  ASSERT_TRUE(lines.ok()) << lines.status().ToString();
  EXPECT_EQ(*(*parquet)->Read(0, (*parquet)->token_count()),
            *(*lines)->Read(0, (*lines)->token_count()));

  options.uri = Fixture("bytes.parquet");
  options.documents.on_bad_document = api::OnBadDocument::kFail;
  EXPECT_THAT(Corpus::Open(options).status().message(),
              AllOf(HasSubstr(options.uri), HasSubstr("row 2: is not UTF-8")));
}

}  // namespace
}  // namespace swarm::data
