#include "operator/jobs_page/jobs_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/objects/testing/job_under_test.h"

namespace swarm::jobs_page {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

/// A job that began at midnight, with this status.
json JobObject(const std::string& name, const json& status) {
  json object = objects::JobObject();
  object["metadata"]["name"] = name;
  object["metadata"]["uid"] = "uid-" + name;
  object["metadata"]["creationTimestamp"] = "2026-11-27T00:00:00Z";
  object["status"] = status;
  return object;
}

json Condition(const std::string& type, const std::string& status, const std::string& message) {
  return {{"type", type},
          {"status", status},
          {"reason", "Said"},
          {"message", message},
          {"lastTransitionTime", "2026-11-27T00:00:00Z"}};
}

json RunningStatus() {
  return json::parse(R"({
      "state": "Running", "step": 120, "readyReplicas": 4, "preemptions": 2, "failures": 1,
      "progress": {"loss": 2.346, "tokensPerSecond": 51200, "secondsLeft": 5400,
                   "time": "2026-11-27T00:59:20Z"},
      "plan": {"replicas": 5, "layout": [3, 2]},
      "stages": [{"index": 0, "ready": 3}, {"index": 1, "ready": 1}],
      "trainer": {"term": 1, "podName": "llama-trainer-1"}})");
}

/// The page at one o'clock.
JobsView ViewOf(const std::vector<json>& objects) {
  JobsView view;
  view.now = *api::ParseTime("2026-11-27T01:00:00Z");
  for (const json& object : objects) AddJob(object, &view);
  return view;
}

json RowsOf(const JobsView& view) { return json::parse(ToJson(view))["jobs"]; }

std::string WhyOf(const json& status) { return RowsOf(ViewOf({JobObject("a", status)}))[0]["why"]; }

TEST(JobsViewTest, ARowSaysHowFarTheJobIsAndWhoServesIt) {
  EXPECT_EQ(RowsOf(ViewOf({JobObject("llama", RunningStatus())})), json::parse(R"([{
      "namespace": "team", "name": "llama", "state": "Running", "why": "", "step": 120,
      "maxSteps": 9, "loss": 2.346, "tokensPerSecond": 51200.0, "secondsLeft": 5400.0,
      "ready": 4, "wanted": 5, "stages": [{"ready": 3, "wanted": 3}, {"ready": 1, "wanted": 2}],
      "preemptions": 2, "failures": 1, "ageSeconds": 3600, "trainer": true, "page": null,
      "progressAgeSeconds": 40}])"));
}

TEST(JobsViewTest, WhatTheTrainerSaysNowCountsMoreThanTheObject) {
  JobsView view = ViewOf({JobObject("llama", RunningStatus())});
  protocol::JobStatus& told = view.told["uid-llama"];
  told.state = protocol::JobState::kTraining;
  told.step = protocol::Step(150);
  told.loss = 2.25;
  told.tokens_per_second = 60000;
  told.seconds_left = 5000;
  const json row = RowsOf(view)[0];
  EXPECT_EQ(row["step"], 150);
  EXPECT_EQ(row["loss"], 2.25);
  EXPECT_EQ(row["tokensPerSecond"], 60000);
  EXPECT_EQ(row["secondsLeft"], 5000);
  EXPECT_EQ(row["progressAgeSeconds"], nullptr) << "it is of now";
}

TEST(JobsViewTest, ATrainerThatHasJustTakenOverDoesNotSetTheJobBack) {
  JobsView view = ViewOf({JobObject("llama", RunningStatus())});
  protocol::JobStatus& told = view.told["uid-llama"];
  told.state = protocol::JobState::kTakingOver;
  told.waiting_for = "2 workers";
  EXPECT_EQ(RowsOf(view)[0]["step"], 120);
  EXPECT_EQ(RowsOf(view)[0]["progressAgeSeconds"], 40) << "the object's figures are shown";
  EXPECT_EQ(RowsOf(view)[0]["why"], "waits for 2 workers");
  told.state = protocol::JobState::kTraining;
  told.step = protocol::Step(121);
  EXPECT_EQ(RowsOf(view)[0]["step"], 121);
  EXPECT_EQ(RowsOf(view)[0]["loss"], 2.346);
}

TEST(JobsViewTest, EachStateHasItsOwnReason) {
  const json conditions = {Condition("Accepted", "False", "not accepted"),
                           Condition("Ready", "False", "stage 1 has no worker"),
                           Condition("Failed", "True", "the data are gone")};
  const auto why = [&](const char* state) {
    return WhyOf({{"state", state}, {"conditions", conditions}});
  };
  EXPECT_EQ(why("Rejected"), "not accepted");
  EXPECT_EQ(why("Recovering"), "stage 1 has no worker");
  EXPECT_EQ(why("Failed"), "the data are gone");
  EXPECT_EQ(why("Succeeded"), "");
  EXPECT_EQ(why("Suspended"), "");
  EXPECT_EQ(WhyOf({{"state", "Running"},
                   {"conditions", {Condition("CapacityAvailable", "False", "no node fits")}}}),
            "no node fits");
  EXPECT_EQ(WhyOf({{"state", "Running"},
                   {"conditions", {Condition("ClustersConnected", "False", "west is away")}}}),
            "west is away");
}

TEST(JobsViewTest, WhatIsNotKnownIsNull) {
  const json row = RowsOf(ViewOf({JobObject("new", json::object())}))[0];
  EXPECT_EQ(row["state"], "Pending");
  EXPECT_EQ(row["loss"], nullptr);
  EXPECT_EQ(row["tokensPerSecond"], nullptr);
  EXPECT_EQ(row["secondsLeft"], nullptr);
  EXPECT_EQ(row["trainer"], false);
  EXPECT_EQ(row["progressAgeSeconds"], nullptr);
}

TEST(JobsViewTest, WhereAWayLeadsToThePageOfAJobARowHasItOnceThereIsATrainer) {
  JobsView view = ViewOf({JobObject("llama", RunningStatus()), JobObject("new", json::object())});
  view.opens = true;
  EXPECT_EQ(RowsOf(view)[0]["page"], "/jobs/team/llama");
  EXPECT_EQ(RowsOf(view)[1]["page"], nullptr);
}

TEST(JobsViewTest, AnObjectThatIsNoJobIsShownWithTheReason) {
  json wrong = JobObject("b", {{"step", "many"}});
  const json rows =
      RowsOf(ViewOf({JobObject("c", RunningStatus()), wrong, JobObject("a", RunningStatus())}));
  std::vector<std::string> names;
  for (const json& row : rows) names.push_back(row["name"]);
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
  EXPECT_EQ(rows[1]["state"], nullptr);
  EXPECT_THAT(rows[1]["why"].get<std::string>(), HasSubstr("step"));
}

}  // namespace
}  // namespace swarm::jobs_page
