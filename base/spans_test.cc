#include "base/spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace swarm {
namespace {

using std::chrono::nanoseconds;
using testing::UnorderedElementsAre;

Span Fold(std::uint64_t step, std::uint64_t microbatch = 0) {
  return {.kind = SpanKind::kFold, .step = step, .microbatch = microbatch};
}

TEST(SpansTest, KeepTheFirstOnesAndCountWhatHasNoRoom) {
  Spans spans(2);
  for (std::uint64_t i = 0; i < 5; ++i) spans.Record(Fold(0, i));
  EXPECT_THAT(spans.Read(), UnorderedElementsAre(Fold(0, 0), Fold(0, 1)));
  EXPECT_EQ(spans.dropped(), 3u);
}

TEST(SpansTest, ThreadsRecordBesideEachOtherAndBesideAReader) {
  Spans spans(1000);
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&spans, thread] {
      for (std::uint64_t i = 0; i < 300; ++i) spans.Record(Fold(thread, i));
    });
  }
  for (const Span& span : spans.Read()) EXPECT_LT(span.step, 4u);
  for (std::thread& thread : threads) thread.join();
  std::vector<Span> read = spans.Read();
  EXPECT_EQ(read.size(), 1000u);
  EXPECT_EQ(spans.dropped(), 200u);
  const auto name = [](const Span& span) { return std::pair(span.step, span.microbatch); };
  std::ranges::sort(read, {}, name);
  EXPECT_EQ(std::ranges::adjacent_find(read, {}, name), read.end()) << "each was recorded once";
}

TEST(SpansTest, ATimerRecordsUntilItsEndAndNothingWhenOff) {
  Spans spans;
  {
    const SpanTimer timer(&spans, Fold(7));
  }
  {
    const SpanTimer off(nullptr, Fold(7));
  }
  const std::vector<Span> read = spans.Read();
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].step, 7u);
  EXPECT_GT(read[0].begin, Timepoint());
  EXPECT_LE(read[0].begin, read[0].end);
}

TEST(SpansTest, LinesHaveWhatASpanHas) {
  Spans spans(2);
  spans.Record({.kind = SpanKind::kLayerForward,
                .stage = 1,
                .step = 4,
                .microbatch = 3,
                .layer = 9,
                .begin = Timepoint(nanoseconds(1500)),
                .end = Timepoint(nanoseconds(2500))});
  spans.Record({.kind = SpanKind::kSum, .begin = Timepoint(nanoseconds(1000)), .end = {}});
  spans.Record({});
  std::istringstream lines(ToJsonLines(spans));
  std::vector<nlohmann::json> read;
  for (std::string line; std::getline(lines, line);) read.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(
      read[0],
      nlohmann::json({{"kind", "sum"}, {"stage", 0}, {"step", 0}, {"begin", 1000}, {"end", 0}}));
  EXPECT_EQ(read[1], nlohmann::json({{"kind", "layer forward"},
                                     {"stage", 1},
                                     {"step", 4},
                                     {"microbatch", 3},
                                     {"layer", 9},
                                     {"begin", 1500},
                                     {"end", 2500}}));
  EXPECT_EQ(read[2], nlohmann::json({{"dropped", 1}}));
}

}  // namespace
}  // namespace swarm
