#include "worker/page/state/history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace swarm::page {
namespace {

using nlohmann::json;

constexpr double kEnd = std::numeric_limits<double>::infinity();

std::string StepLine(std::uint64_t step, double loss) {
  return json{{"step", step}, {"loss", loss}, {"grad_norm", 2.0}, {"lr", 0.5}, {"seconds", 0.25}}
      .dump();
}

std::string EventLine(const std::string& kind, std::uint64_t version) {
  return json{{"time", 1.5}, {"kind", kind}, {"text", "why"}, {"version", version}}.dump();
}

json Curves(const History& history, double from = 0, double to = kEnd) {
  return json::parse(history.CurvesJson(from, to));
}

json News(History& history) {
  const auto news = history.TakeNews();
  return news ? json::parse(*news) : json();
}

TEST(HistoryTest, CurvesAndMarksAreWhatTheLinesSay) {
  History history;
  history.AddStep(StepLine(0, 4.5));
  history.AddStep(StepLine(1, 4.25));
  history.AddEvent(R"({"time":1,"kind":"Validation","text":"","step":1,"loss":4.75})");
  history.AddEvent(EventLine("WorkerLost", 1));
  history.AddEvent(EventLine("WorkerJoined", 1));
  const json curves = Curves(history);
  EXPECT_EQ(curves.at("loss"), json::parse("[[0.0,1.0],[4.5,4.25]]"));
  EXPECT_EQ(curves.at("gradNorm"), json::parse("[[0.0,1.0],[2.0,2.0]]"));
  EXPECT_EQ(curves.at("learningRate"), json::parse("[[0.0,1.0],[0.5,0.5]]"));
  EXPECT_EQ(curves.at("seconds"), json::parse("[[0.0,1.0],[0.25,0.25]]"));
  EXPECT_EQ(curves.at("validation"), json::parse("[[1.0],[4.75]]"));
  EXPECT_EQ(json::parse(history.MarksJson()),
            json::parse(R"([{"step":1.0,"kind":"WorkerLost","text":"why"}])"));
}

TEST(HistoryTest, LinesThatAreNoneOfOursAreIgnored) {
  History history;
  for (const char* line : {"", "no JSON", "[1]", "{}", R"({"step":"1"})", R"({"kind":3})",
                           R"({"kind":"WorkerLost","text":"of a program before"})"}) {
    history.AddStep(line);
    history.AddEvent(line);
  }
  history.AddEvent(R"({"kind":"Validation","text":"","step":1,"loss":null})");
  EXPECT_EQ(history.steps(), 0u);
  EXPECT_EQ(history.MarksJson(), "[]");
  EXPECT_EQ(Curves(history).at("validation"), json::parse("[[],[]]"));
}

TEST(HistoryTest, AValueThatIsNotKnownIsAGap) {
  History history;
  history.AddStep(R"({"step":3,"loss":null,"grad_norm":1.0,"lr":1.0,"seconds":1.0})");
  EXPECT_EQ(Curves(history).at("loss"), json::parse("[[],[]]"));
  EXPECT_EQ(Curves(history).at("gradNorm"), json::parse("[[3.0],[1.0]]"));
  history.AddStep(R"({"step":4,"loss":1.0,"grad_norm":1.0,"lr":1.0,"seconds":0.0})");
  EXPECT_EQ(Curves(history).at("seconds"), json::parse("[[3.0],[1.0]]"))
      << "a step of the trainer before has no time";
}

TEST(HistoryTest, ManyStepsAreThinnedAndNoPeakIsLostAndAPartOfThemIsFiner) {
  History history;
  for (std::uint64_t step = 0; step < 100'000; ++step) {
    history.AddStep(StepLine(step, step == 54'321 ? 99.0 : 1.0 + static_cast<double>(step % 7)));
  }
  const json loss = Curves(history).at("loss");
  EXPECT_LE(loss[0].size(), 4 * History::kBuckets);
  EXPECT_EQ(loss[0].front(), 0.0);
  EXPECT_EQ(loss[0].back(), 99'999.0);
  EXPECT_EQ(*std::max_element(loss[1].begin(), loss[1].end()), 99.0);
  const json part = Curves(history, 54'300, 54'340).at("loss");
  EXPECT_EQ(part[0].size(), 41u);
}

TEST(HistoryTest, NewsAreToldOnce) {
  History history;
  EXPECT_TRUE(history.has_news());
  EXPECT_TRUE(News(history).is_null()) << "first all is told";
  history.AddStep(StepLine(0, 4.5));
  history.AddEvent(EventLine("TookOver", 1));
  const json news = News(history);
  EXPECT_EQ(news.at("steps"), json::parse("[[0.0,4.5,2.0,0.5,0.25]]"));
  EXPECT_EQ(news.at("marks")[0].at("kind"), "TookOver");
  EXPECT_FALSE(history.has_news());
  history.Clear();
  history.AddStep(StepLine(0, 4.5));
  EXPECT_TRUE(News(history).is_null()) << "the file was cut";
  EXPECT_TRUE(News(history).at("steps").empty());
}

TEST(HistoryTest, TooManyNewsAreToldAsAWhole) {
  History history;
  (void)history.TakeNews();
  for (std::uint64_t step = 0; step < 5'000; ++step) history.AddStep(StepLine(step, 1));
  EXPECT_TRUE(News(history).is_null());
  EXPECT_TRUE(News(history).at("steps").empty());
}

TEST(HistoryTest, MemoryIsBounded) {
  History history(/*steps_max=*/100);
  for (std::uint64_t step = 0; step < 1'000; ++step) history.AddStep(StepLine(step, 1));
  EXPECT_LE(history.steps(), 100u);
  EXPECT_GE(history.steps(), 50u);
  const json steps = Curves(history).at("loss")[0];
  EXPECT_EQ(steps.front(), 0.0);
  EXPECT_EQ(steps.back(), 999.0);
  for (std::uint64_t i = 0; i < 2 * History::kMarksMax; ++i) {
    history.AddEvent(EventLine("WorkerLost", i));
  }
  EXPECT_EQ(json::parse(history.MarksJson()).size(), History::kMarksMax);
}

}  // namespace
}  // namespace swarm::page
