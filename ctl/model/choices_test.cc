#include "ctl/model/choices.h"

#include <gmock/gmock.h>

#include <cmath>

namespace swarm::ctl {
namespace {

using testing::HasSubstr;

TEST(ChoicesTest, LinesAreQuestions) {
  const auto read = ReadQuestions(
      "{\"context\": \"The sky is\", \"choices\": [\"blue\", \"a stone\"], \"answer\": 0}\n\n"
      "{\"context\": \"\", \"choices\": [\"a\", \"b\", \"c\"], \"answer\": 2, \"id\": 7}");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ(read->front().context, "The sky is");
  EXPECT_EQ(read->back().choices.size(), 3u);
  EXPECT_EQ(read->back().answer, 2u);
}

TEST(ChoicesTest, ABadLineIsNamed) {
  const std::string good = R"({"context": "a", "choices": ["b", "c"], "answer": 1})" "\n";
  const std::pair<const char*, const char*> bad[] = {
      {"{\"context\": \"cut", "is no JSON object"},
      {R"({"choices": ["b", "c"], "answer": 1})", "the field context"},
      {R"({"context": "a", "choices": ["b"], "answer": 0})", "the field choices"},
      {R"({"context": "a", "choices": ["b", 3], "answer": 0})", "the field choices"},
      {R"({"context": "a", "choices": ["b", ""], "answer": 0})", "an empty choice"},
      {R"({"context": "a", "choices": ["b", "c"], "answer": 2})", "the field answer"},
      {R"({"context": "a", "choices": ["b", "c"], "answer": "b"})", "the field answer"}};
  for (const auto& [line, problem] : bad) {
    const Status status = ReadQuestions(good + line).status();
    EXPECT_THAT(status.message(), HasSubstr(problem)) << line;
    EXPECT_THAT(status.message(), HasSubstr("line 2: ")) << line;
  }
  EXPECT_FALSE(ReadQuestions("\n").ok());
}

TEST(ChoicesTest, LongChoicesCountByCharacterAndTheFirstOfEqualsIsChosen) {
  ChoiceScore score;
  // 4 nats of 1 character against 6 of 3 characters (5 bytes).
  score.Add({"", {"a", "ééb"}, 1}, {-4, -6});
  EXPECT_EQ(score.accuracy(), 0);
  EXPECT_EQ(score.normalized_accuracy(), 1);
  score.Add({"", {"a", "b"}, 0}, {-1, -1});
  score.Add({"", {"a", "b"}, 1}, {-1, -1});
  EXPECT_EQ(score.questions(), 3u);
  EXPECT_DOUBLE_EQ(score.accuracy(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(score.normalized_accuracy(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(score.ErrorOf(0.5), std::sqrt(0.25 / 2));
}

}  // namespace
}  // namespace swarm::ctl
