#include "operator/kube/leader/events.h"

#include <gtest/gtest.h>

#include <latch>
#include <nlohmann/json.hpp>

#include "operator/kube/testing/fake_client.h"
#include "operator/kube/testing/fake_timing.h"

namespace swarm::kube {
namespace {

using nlohmann::json;
using std::chrono::seconds;

EventRequest Request(const std::string& note, const std::string& job = "job") {
  return {{"swarmjob.dev/v1alpha1", "SwarmJob", {"ns", job}, "uid-of-" + job, "7"},
          EventType::kWarning,
          "WorkerPreempted",
          "Replace",
          note};
}

class CorrelatorTest : public ::testing::Test {
 protected:
  std::optional<EventWrite> Happens(const std::string& note, const std::string& job = "job") {
    // The name of an event contains the time.
    wall_ += std::chrono::microseconds(1);
    return correlator_.On(Request(note, job), now_, wall_);
  }

  EventCorrelator correlator_{{.instance = "pod-1"}};
  Timepoint now_{std::chrono::hours(1)};
  WallTime wall_{std::chrono::hours(480'000)};
};

TEST_F(CorrelatorTest, AnEventHasAllThatTheApiRequires) {
  const auto write = Happens("worker 3 is gone");
  ASSERT_TRUE(write && write->is_new);
  const json event = json::parse(write->body);
  EXPECT_EQ(event["apiVersion"], "events.k8s.io/v1");
  EXPECT_EQ(event["regarding"]["uid"], "uid-of-job");
  EXPECT_EQ(event["reason"], "WorkerPreempted");
  EXPECT_EQ(event["action"], "Replace");
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["note"], "worker 3 is gone");
  EXPECT_EQ(event["reportingInstance"], "pod-1");
  EXPECT_EQ(event["metadata"]["namespace"], "ns");
  EXPECT_FALSE(event["eventTime"].get<std::string>().empty());
}

TEST_F(CorrelatorTest, TheSameAgainIsACountOfTheFirst) {
  const auto first = Happens("a");
  const auto second = Happens("a");
  const auto third = Happens("a");
  ASSERT_TRUE(first && second && third);
  EXPECT_FALSE(second->is_new);
  EXPECT_EQ(second->name, first->name);
  EXPECT_EQ(json::parse(second->body)["series"]["count"], 2);
  EXPECT_EQ(json::parse(third->body)["series"]["count"], 3);
}

TEST_F(CorrelatorTest, AfterTenAlikeTheOthersAreOne) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Happens(std::to_string(i))->is_new);
  const auto eleventh = Happens("10");
  const auto twelfth = Happens("11");
  ASSERT_TRUE(eleventh && twelfth);
  EXPECT_TRUE(eleventh->is_new);
  EXPECT_EQ(json::parse(eleventh->body)["note"], "(combined from similar events): 10");
  EXPECT_FALSE(twelfth->is_new);
  EXPECT_EQ(twelfth->name, eleventh->name);
  // A note that had its own event still counts there.
  EXPECT_FALSE(Happens("3")->is_new);
}

TEST_F(CorrelatorTest, AfterTenQuietMinutesItBeginsAnew) {
  for (int i = 0; i < 12; ++i) Happens(std::to_string(i));
  now_ += seconds(601);
  const auto write = Happens("12");
  ASSERT_TRUE(write && write->is_new);
  EXPECT_EQ(json::parse(write->body)["note"], "12");
}

TEST_F(CorrelatorTest, AnObjectHas25AtOnceAndThenOneInFiveMinutes) {
  for (int i = 0; i < 25; ++i) EXPECT_TRUE(Happens("a"));
  EXPECT_FALSE(Happens("a"));
  EXPECT_TRUE(Happens("a", "another job"));
  now_ += seconds(300);
  EXPECT_TRUE(Happens("a"));
  EXPECT_FALSE(Happens("a"));
}

TEST_F(CorrelatorTest, WhatIsRememberedHasABound) {
  EventCorrelator small({.remembered_max = 2});
  EXPECT_TRUE(small.On(Request("a", "1"), now_, wall_)->is_new);
  EXPECT_TRUE(small.On(Request("a", "2"), now_ + seconds(1), wall_)->is_new);
  EXPECT_TRUE(small.On(Request("a", "3"), now_ + seconds(2), wall_)->is_new);
  EXPECT_FALSE(small.On(Request("a", "3"), now_ + seconds(3), wall_)->is_new);
  EXPECT_TRUE(small.On(Request("a", "1"), now_ + seconds(4), wall_)->is_new);
}

TEST_F(CorrelatorTest, ALongNoteIsCutBetweenCharacters) {
  std::string note(1023, 'x');
  note += "ü";
  const auto write = Happens(note);
  EXPECT_EQ(json::parse(write->body)["note"], std::string(1023, 'x'));
}

TEST_F(CorrelatorTest, AnEventAboutTheClusterLivesInDefault) {
  EventRequest request = Request("a");
  request.regarding.name.ns.clear();
  EXPECT_EQ(correlator_.On(request, now_, wall_)->name.ns, "default");
}

// Keeps the events that were sent. Can delay the sender.
class EventServer final : public FakeClient {
 public:
  Result<Object> Create(const Resource&, const json& event, const WriteOptions&) override {
    if (gate_) gate_->wait();
    const std::lock_guard lock(mutex_);
    created_.push_back(event);
    return std::make_shared<const json>(event);
  }
  Result<Object> Patch(const Resource&, const ObjectName&, PatchType, const json& patch,
                       const WriteOptions&) override {
    const std::lock_guard lock(mutex_);
    if (forgetful_) return NotFound("it is an hour old");
    patched_.push_back(patch);
    return std::make_shared<const json>(patch);
  }
  std::latch* gate_ = nullptr;
  bool forgetful_ = false;
  std::mutex mutex_;
  std::vector<json> created_, patched_;
};

void Record(EventRecorder& recorder, const std::string& note) {
  const EventRequest request = Request(note);
  recorder.Record(request.regarding, request.type, request.reason, request.action, request.note);
}

TEST(EventRecorderTest, EventsAreSentInOrderAndCounted) {
  EventServer server;
  FakeTiming timing;
  EventRecorder recorder(server, {}, timing);
  for (const char* note : {"a", "b", "a"}) Record(recorder, note);
  ASSERT_TRUE(recorder.Flush(seconds(10)));
  ASSERT_EQ(server.created_.size(), 2u);
  EXPECT_EQ(server.created_[1]["note"], "b");
  ASSERT_EQ(server.patched_.size(), 1u);
  EXPECT_EQ(server.patched_[0]["series"]["count"], 2);
}

TEST(EventRecorderTest, ACountOfAnEventThatIsNoMoreBecomesANewEvent) {
  EventServer server;
  server.forgetful_ = true;
  FakeTiming timing;
  EventRecorder recorder(server, {}, timing);
  Record(recorder, "a");
  Record(recorder, "a");
  ASSERT_TRUE(recorder.Flush(seconds(10)));
  EXPECT_EQ(server.created_.size(), 2u);
  EXPECT_EQ(recorder.dropped(), 0u);
}

TEST(EventRecorderTest, WhoRecordsNeverWaitsAndTheQueueHasABound) {
  EventServer server;
  std::latch gate(1);
  server.gate_ = &gate;
  FakeTiming timing;
  EventRecorder recorder(server, {}, timing, /*queue_max=*/3);
  for (int i = 0; i < 10; ++i) Record(recorder, std::to_string(i));
  EXPECT_GE(recorder.dropped(), 6u);
  gate.count_down();
  ASSERT_TRUE(recorder.Flush(seconds(10)));
  EXPECT_EQ(server.created_.size() + recorder.dropped(), 10u);
}

}  // namespace
}  // namespace swarm::kube
