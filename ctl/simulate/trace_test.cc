#include "ctl/simulate/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string Problem(std::string_view text) { return ParseTrace(text).status().message(); }

TEST(TraceTest, ReadsBamboosCsv) {
  const auto trace = ParseTrace("0,add,a\n0,add,b\r\n60000,remove,a\n\n60000,add,c\n");
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  ASSERT_THAT(trace->events, SizeIs(2));
  EXPECT_THAT(trace->events[0].joins, ElementsAre("a", "b"));
  EXPECT_EQ(trace->events[1].seconds, 60);
  EXPECT_THAT(trace->events[1].departures, ElementsAre("a"));
  EXPECT_THAT(trace->events[1].joins, ElementsAre("c"));
  EXPECT_EQ(trace->seconds, 60);
}

TEST(TraceTest, ReadsParcaesJsonAndItsLastInterval) {
  const auto trace = ParseTrace(
      R"([5000, "add", {"nodes": ["a", "b"], "duration": 60000, "some_strategy": [2, 1]}])"
      "\n"
      R"([65000, "no-op", {"nodes": [], "duration": 60000}])"
      "\n"
      R"([125000, "remove", {"nodes": ["b"], "duration": 60000}])");
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  ASSERT_THAT(trace->events, SizeIs(2));
  EXPECT_EQ(trace->events[0].seconds, 0) << "time begins at the first record";
  EXPECT_EQ(trace->events[1].seconds, 120);
  EXPECT_THAT(trace->events[1].departures, ElementsAre("b"));
  EXPECT_EQ(trace->seconds, 180);
}

TEST(TraceTest, OneWhoComesAndGoesAtOnceWasNeverThere) {
  const auto trace = ParseTrace("0,add,a\n9,add,b\n9,remove,b\n");
  ASSERT_TRUE(trace.ok());
  EXPECT_THAT(trace->events[1].joins, IsEmpty());
  EXPECT_THAT(trace->events[1].departures, IsEmpty());
}

TEST(TraceTest, SaysWhichLineIsWrongAndWhatItShouldBe) {
  EXPECT_THAT(Problem("0,add,a\n1,add\n"), HasSubstr("line 2: expected MILLISECONDS,add|remove"));
  EXPECT_THAT(Problem("0,add,a\nsoon,add,b\n"), HasSubstr("line 2: expected MILLISECONDS"));
  EXPECT_THAT(Problem("0,replace,a\n"), HasSubstr("'0,replace,a'"));
  EXPECT_THAT(Problem("0,add,\n"), HasSubstr("line 1"));
  EXPECT_THAT(Problem("[0, \"add\"\n"), HasSubstr("line 1: expected [MILLISECONDS"));
  EXPECT_THAT(Problem(R"([0, "add", {"nodes": "a", "duration": 1}])"), HasSubstr("\"nodes\""));
  EXPECT_THAT(Problem(R"([0, "add", {"nodes": [1], "duration": 1}])"), HasSubstr("NAME"));
  EXPECT_THAT(Problem(R"([0, "add", {"nodes": ["a"], "duration": -1}])"), HasSubstr("duration"));
}

TEST(TraceTest, RefusesWhatCannotHaveHappened) {
  EXPECT_THAT(Problem("5,add,a\n4,add,b\n"), HasSubstr("line 2: time runs backwards"));
  EXPECT_THAT(Problem("0,add,a\n4,add,a\n"), HasSubstr("'a' is there already"));
  EXPECT_THAT(Problem("0,add,a\n4,remove,b\n"), HasSubstr("there is no 'b' to remove"));
  EXPECT_THAT(Problem("nan,add,a\n"), HasSubstr("line 1"));
  EXPECT_THAT(Problem(""), HasSubstr("names no node"));
}

}  // namespace
}  // namespace swarm::ctl
