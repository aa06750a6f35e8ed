#include "worker/data/documents/json_lines.h"

#include <gmock/gmock.h>

#include "worker/data/testing/compress.h"

namespace swarm::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string ErrorOf(std::string_view line) {
  const auto text = ReadTextField(line, "text");
  EXPECT_FALSE(text.ok()) << *text;
  return text.status().message();
}

TEST(JsonLinesTest, TheTextIsTheFieldOfTheOutermostObject) {
  EXPECT_EQ(*ReadTextField(R"({"text": "a\n\u00e9\ud83d\ude00é"})", "text"), "a\né😀é");
  EXPECT_EQ(
      *ReadTextField(R"({"meta": {"text": "no", "n": [1, {"text": 2}]}, "text": "yes"})", "text"),
      "yes");
  EXPECT_EQ(*ReadTextField(R"({"text": 1, "content": "", "x": null})", "content"), "");
  EXPECT_EQ(*ReadTextField(" {\"text\": \"x\\u0000y\"} \r", "text"), std::string("x\0y", 3));
}

TEST(JsonLinesTest, AnotherFieldIsNamedWithThoseThatAreThere) {
  EXPECT_EQ(ErrorOf(R"({"content": "x", "url": {"text": "y"}})"),
            "has no field text; it has content, url; data.textField names another");
  EXPECT_EQ(ErrorOf("{}"), "has no field text; it has none; data.textField names another");
  EXPECT_EQ(ErrorOf(R"({"text": 17})"), "the field text is a number, no text");
  EXPECT_EQ(ErrorOf(R"({"text": null})"), "the field text is null, no text");
  EXPECT_EQ(ErrorOf(R"({"text": ["x"]})"), "the field text is a list, no text");
  EXPECT_EQ(ErrorOf(R"({"text": {"text": "x"}})"), "the field text is an object, no text");
}

TEST(JsonLinesTest, ALineThatIsNoObjectIsRefusedWithItsPlace) {
  EXPECT_EQ(ErrorOf(R"(["text", "x"])"), "is a list, no JSON object");
  EXPECT_EQ(ErrorOf(R"("text")"), "is a text, no JSON object");
  EXPECT_EQ(ErrorOf(R"({"text": "cut o)"),
            "ends in the middle of its JSON object; is the file cut off?");
  EXPECT_EQ(ErrorOf(R"({"text": )"), "ends in the middle of its JSON object; is the file cut off?");
  EXPECT_EQ(ErrorOf("Call me Ishmael."), "is no JSON, at byte 0");
  EXPECT_EQ(ErrorOf(R"({"text": "x"} {"text": "y"})"), "is no JSON, at byte 14");
  EXPECT_EQ(ErrorOf("{\"text\": \"x\xff\"}"), "is not UTF-8, at byte 11");
  EXPECT_THAT(ErrorOf(R"({"text": "\ud800"})"), HasSubstr("is no JSON"));
}

class JsonLinesFileTest : public testing::TestWithParam<Compression> {};

TEST_P(JsonLinesFileTest, LinesAreNumberedFromOneAndEmptyOnesAreLeftOut) {
  const std::string file =
      "{\"text\": \"one\"}\n\n \r\n{\"text\": \"four\"}\r\nfive\n{\"text\": \"six\"}";
  std::vector<std::pair<std::uint64_t, std::string>> documents, bad;
  const DocumentHandlers handlers{.document =
                                      [&](std::string text, std::uint64_t line) {
                                        documents.emplace_back(line, text);
                                        return Status();
                                      },
                                  .bad =
                                      [&](const Status& reason, std::uint64_t line) {
                                        bad.emplace_back(line, reason.message());
                                        return Status();
                                      }};
  ASSERT_TRUE(ReadJsonLines(GetParam(), Compress(GetParam(), file), "text", handlers).ok());
  EXPECT_THAT(documents, ElementsAre(Pair(1, "one"), Pair(4, "four"), Pair(6, "six")));
  EXPECT_THAT(bad, ElementsAre(Pair(5, HasSubstr("is no JSON"))));
}

TEST_P(JsonLinesFileTest, AnErrorOfAHandlerEndsTheReading) {
  int count = 0;
  const DocumentHandlers handlers{
      .document = [&](std::string, std::uint64_t) { return ++count, Status(); },
      .bad = [](const Status& reason, std::uint64_t) { return reason; }};
  const std::string file = "{\"text\": \"one\"}\n{\"text\": 2}\n{\"text\": \"three\"}\n";
  const Status status = ReadJsonLines(GetParam(), Compress(GetParam(), file), "text", handlers);
  EXPECT_THAT(status.message(), HasSubstr("is a number"));
  EXPECT_EQ(count, 1);
}

TEST_P(JsonLinesFileTest, LinesCrossThePiecesOfACompressedFile) {
  std::string file;
  std::vector<std::size_t> sizes, read;
  for (std::size_t i = 0; i < 40; ++i) {
    sizes.push_back(i * 9973 + 1);
    file += "{\"text\": \"" + std::string(sizes.back(), static_cast<char>('a' + i % 26)) + "\"}\n";
  }
  const DocumentHandlers handlers{
      .document =
          [&](std::string text, std::uint64_t) {
            read.push_back(text.size());
            return Status();
          },
      .bad = [](const Status& reason, std::uint64_t) { return reason; }};
  ASSERT_TRUE(ReadJsonLines(GetParam(), Compress(GetParam(), file), "text", handlers).ok());
  EXPECT_EQ(read, sizes);
}

INSTANTIATE_TEST_SUITE_P(, JsonLinesFileTest,
                         testing::Values(Compression::kNone, Compression::kGzip,
                                         Compression::kZstd));

}  // namespace
}  // namespace swarm::data
