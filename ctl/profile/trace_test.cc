#include "ctl/profile/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "ctl/profile/testing/recorded_spans.h"
#include "ctl/profile/testing/trace_rules.h"

namespace swarm::ctl {
namespace {

using nlohmann::json;
using testing::ElementsAre;

class TraceTest : public testing::Test {
 protected:
  static json Of(const std::vector<WorkerSpans>& workers) {
    return json::parse(ToTrace(workers, FindTransfers(workers), {At(0), At(100)}));
  }
  /// The events of a phase, and with that name, if it is not empty.
  static std::vector<json> Events(const json& trace, const std::string& phase,
                                  const std::string& name) {
    std::vector<json> events;
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("ph") == phase && event.at("name") == name) events.push_back(event);
    }
    return events;
  }
};

TEST_F(TraceTest, KeepsTheRulesOfItsFormat) { ExpectRulesOfTraces(Of(OneMicrobatch())); }

TEST_F(TraceTest, HasAProcessForEachWorkerByStage) {
  std::vector<WorkerSpans> workers = OneMicrobatch();
  std::swap(workers[0], workers[1]);
  std::vector<std::string> names;
  for (const json& event : Events(Of(workers), "M", "process_name")) {
    names.push_back(event.at("args").at("name"));
  }
  EXPECT_THAT(names, ElementsAre("stage 0: a", "stage 1: b"));
}

TEST_F(TraceTest, TimesAreMicrosecondsSinceTheFirstSpan) {
  const auto workers = {OfStage(0, "a", {During(SpanKind::kForward, 1000, 1007)}),
                        OfStage(1, "b", {During(SpanKind::kForward, 1010, 1015)})};
  const auto forwards = Events(Of(workers), "X", "forward");
  ASSERT_EQ(forwards.size(), 2u);
  EXPECT_EQ(forwards[0].at("ts"), 0);
  EXPECT_EQ(forwards[0].at("dur"), 7000);
  EXPECT_EQ(forwards[1].at("ts"), 10'000);
  EXPECT_EQ(forwards[1].at("args"), json({{"step", 0}, {"microbatch", 0}}));
}

TEST_F(TraceTest, ShowsWhatWorkersWaitedFor) {
  const json trace = Of(OneMicrobatch());
  std::map<std::string, double> waits;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("tid") == 3 && event.at("pid") == 1) {
      waits[event.at("name")] += event.at("dur").get<double>();
    }
  }
  EXPECT_EQ(waits,
            (std::map<std::string, double>{
                {"a sum", 3000}, {"other workers", 30'000}, {"what is on its way", 10'000}}));
}

TEST_F(TraceTest, ShowsWhatIsOnItsWayAtTheReceiver) {
  const auto begins = Events(Of(OneMicrobatch()), "b", "activations on their way");
  ASSERT_EQ(begins.size(), 1u);
  EXPECT_EQ(begins[0].at("pid"), 2);
  EXPECT_EQ(begins[0].at("ts"), 20'000);
  EXPECT_EQ(begins[0].at("args").at("from"), "a");
}

TEST_F(TraceTest, NamesOfWorkersBreakNothing) {
  const json trace = Of({OfStage(0, "a\"\\\n\xff", {During(SpanKind::kForward, 0, 1)})});
  EXPECT_EQ(Events(trace, "M", "process_name").size(), 1u);
}

}  // namespace
}  // namespace swarm::ctl
