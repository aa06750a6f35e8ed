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
    return ReadParquet(Bytes::Copy(content), column,
                       {.document = take(documents_), .bad = take(bad_)});
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
