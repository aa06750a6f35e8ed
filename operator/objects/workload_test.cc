// The Workload of a job, as it is written, read, and told.
#include "operator/objects/workload.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "operator/objects/testing/job_under_test.h"

namespace swarm::objects {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

const PodOptions kOptions{.worker_image = "worker:1", .worker_platform = "linux/amd64"};
const api::WallTime kNow{std::chrono::seconds(1'800'000'000)};

json Built(const JobView& view, std::optional<std::int64_t> priority = std::nullopt) {
  const auto built = BuildWorkload(view, kOptions, priority);
  EXPECT_TRUE(built.ok()) << built.status().ToString();
  return built.ok() ? *built : json();
}

JobView JobOfTwoPools() {
  return JobWith(R"({"workers": {"pools": [
      {"name": "good", "maxReplicas": 1, "nodeSelector": {"disk": "fast"},
       "resources": {"requests": {"cpu": "2"}}},
      {"name": "cheap", "resources": {"limits": {"nvidia.com/gpu": 1}}},
      {"name": "spare"}]}})");
}

/// With this condition, as Kueue writes it.
json With(json workload, const std::string& type, const std::string& status,
          const std::string& reason = "R", const std::string& words = "words") {
  workload["status"]["conditions"].push_back({{"type", type},
                                              {"status", status},
                                              {"reason", reason},
                                              {"message", words},
                                              {"lastTransitionTime", "2026-11-21T14:00:00Z"}});
  return workload;
}

json ConditionOf(const json& workload, const std::string& type) {
  for (const json& each : workload["status"]["conditions"]) {
    if (each["type"] == type) return each;
  }
  return {};
}

TEST(WorkloadTest, AWorkloadAsksForTheTrainerAndForThePoolsThatAreUsed) {
  const json workload = Built(JobOfTwoPools());
  EXPECT_EQ(workload["metadata"]["name"], "swarmjob-tiny");
  EXPECT_EQ(workload["metadata"]["ownerReferences"][0]["uid"], "1-2-3");
  EXPECT_EQ(workload["metadata"]["labels"]["kueue.x-k8s.io/job-uid"], "1-2-3");
  EXPECT_EQ(workload["spec"]["queueName"], "night");
  const json& sets = workload["spec"]["podSets"];
  ASSERT_EQ(sets.size(), 3u);
  EXPECT_EQ(sets[0]["name"], "trainer");
  EXPECT_EQ(sets[0]["count"], 1);
  EXPECT_EQ(sets[1]["name"], "workers-good");
  EXPECT_EQ(sets[1]["count"], 1);
  EXPECT_EQ(
      sets[1]["template"]["spec"]["nodeSelector"],
      (json{{"disk", "fast"}, {"kubernetes.io/os", "linux"}, {"kubernetes.io/arch", "amd64"}}));
  EXPECT_EQ(sets[1]["template"]["spec"]["containers"],
            json::parse(R"([{"name": "worker", "image": "worker:1",
                             "resources": {"requests": {"cpu": "2"}}}])"));
  EXPECT_EQ(sets[2]["name"], "workers-cheap");
  EXPECT_EQ(sets[2]["count"], 3);
}

TEST(WorkloadTest, APriorityIsThatOfItsClass) {
  json object = JobObject();
  object["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "urgent";
  const json workload = Built(View(object), 1000);
  EXPECT_EQ(
      workload["spec"]["priorityClassRef"],
      (json{{"group", "kueue.x-k8s.io"}, {"kind", "WorkloadPriorityClass"}, {"name", "urgent"}}));
  EXPECT_EQ(workload["spec"]["priority"], 1000);
}

TEST(WorkloadTest, WhatHappensToAJobDoesNotOutdateItsWorkload) {
  JobView job = JobWith("{}");
  const json workload = Built(job);
  job.status.nodes = {{.name = "bad", .hostname = "bad", .avoided = true}};
  job.status.nextWorkerOrdinal = 12;
  job.status.trainer.term = 3;
  job.status.image.name = "worker:2";
  job.status.image.platform = "linux/amd64";
  job.placements["trainer"].node_selector["rack"] = "7";
  EXPECT_FALSE(ReadWorkload(workload, Built(job)).outdated);
  EXPECT_FALSE(ReadWorkload(workload, Built(JobWith(R"({"workers": {"replicas": 9}})"))).outdated)
      << "the number of pods is told apart";
  const char* elsewhere = R"({"workers": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}})";
  EXPECT_TRUE(ReadWorkload(workload, Built(JobWith(elsewhere))).outdated);
}

TEST(WorkloadTest, AnotherQueueOutdatesIt) {
  json object = JobObject();
  object["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "day";
  EXPECT_TRUE(ReadWorkload(Built(JobWith("{}")), Built(View(object))).outdated);
}

TEST(WorkloadTest, WhatKueueSaysIsRead) {
  const json asked = Built(JobOfTwoPools());
  const plan::ObservedWorkload fresh = ReadWorkload(asked, asked);
  EXPECT_FALSE(fresh.has_quota || fresh.admitted || fresh.evicted || fresh.finished);
  EXPECT_TRUE(fresh.active);
  EXPECT_THAT(fresh.pods, UnorderedElementsAre(Pair("good", 1u), Pair("cheap", 3u)));
  json waits = With(asked, "QuotaReserved", "False", "Pending", "insufficient quota");
  EXPECT_EQ(ReadWorkload(waits, asked).words, "insufficient quota");
  json admitted = With(With(asked, "QuotaReserved", "True"), "Admitted", "True");
  EXPECT_TRUE(ReadWorkload(admitted, asked).admitted);
  const json evicted = With(admitted, "Evicted", "True", "Preempted", "for another");
  EXPECT_TRUE(ReadWorkload(evicted, asked).evicted);
  EXPECT_EQ(ReadWorkload(evicted, asked).words, "for another");
}

TEST(WorkloadTest, RubbishIsReadAsNothing) {
  const json asked = Built(JobWith("{}"));
  for (const char* text : {"7", "[]", "{}", R"({"spec": 3, "status": {"conditions": {"a": 1}}})",
                           R"({"spec": {"podSets": [1, {"name": 2, "count": "x"}]},
                               "status": {"admission": [], "conditions": [null, {"type": 4}]}})"}) {
    const json rubbish = json::parse(text);
    const plan::ObservedWorkload read = ReadWorkload(rubbish, asked);
    EXPECT_TRUE(read.pods.empty()) << text;
    EXPECT_FALSE(read.admitted) << text;
    EXPECT_TRUE(read.outdated) << text;
    EXPECT_TRUE(FlavorsOf(rubbish).empty()) << text;
  }
}

TEST(WorkloadTest, AStoppedJobGivesItsQuotaBackAndCompetesAgainIfItWasPreempted) {
  json workload = With(With(Built(JobWith("{}")), "QuotaReserved", "True"), "Admitted", "True");
  workload["status"]["admission"] = {{"clusterQueue", "all"}};
  for (const auto& [reason, again] :
       {std::pair("Preempted", "True"), std::pair("Deactivated", "False")}) {
    json told = With(workload, "Evicted", "True", reason, "for another");
    Tell({plan::JobNews::kStopped, "1", "for another"}, kNow, &told);
    EXPECT_FALSE(told["status"].contains("admission"));
    EXPECT_EQ(ConditionOf(told, "QuotaReserved")["status"], "False");
    EXPECT_EQ(ConditionOf(told, "QuotaReserved")["lastTransitionTime"], api::FormatTime(kNow));
    EXPECT_EQ(ConditionOf(told, "Admitted")["status"], "False");
    EXPECT_EQ(ConditionOf(told, "Requeued")["status"], again) << reason;
    EXPECT_EQ(ConditionOf(told, "Requeued")["reason"], reason);
    EXPECT_EQ(ConditionOf(told, "Evicted")["status"], "True") << "which is Kueue's to clear";
  }
}

TEST(WorkloadTest, TheEndOfAJobIsWrittenWithItsOutcome) {
  json workload = Built(JobWith("{}"));
  Tell({plan::JobNews::kFailed, "1", "too many failures"}, kNow, &workload);
  EXPECT_EQ(ConditionOf(workload, "Finished")["status"], "True");
  EXPECT_EQ(ConditionOf(workload, "Finished")["reason"], "Failed");
  EXPECT_EQ(ConditionOf(workload, "Finished")["message"], "too many failures");
}

TEST(WorkloadTest, PodsGoWhereTheirFlavorIs) {
  const json workload = {
      {"status",
       {{"admission",
         {{"podSetAssignments",
           {{{"name", "trainer"}, {"flavors", {{"cpu", "on-demand"}, {"memory", "on-demand"}}}},
            {{"name", "workers-default"}, {"flavors", {{"cpu", "spot"}}}}}}}}}}};
  EXPECT_THAT(FlavorsOf(workload),
              UnorderedElementsAre(Pair("trainer", ElementsAre("on-demand")),
                                   Pair("workers-default", ElementsAre("spot"))));
  JobView job =
      JobWith(R"({"workers": {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}})");
  AddFlavor(json::parse(R"({"spec": {"nodeLabels": {"capacity": "spot"}, "tolerations": [
                {"key": "spot", "operator": "Exists"}]}})"),
            &job.placements["workers-default"]);
  const auto pod = BuildWorkerPod(job, 7, job.job.spec.workers.pools[0], kOptions);
  ASSERT_TRUE(pod.ok()) << pod.status().ToString();
  EXPECT_EQ((*pod)["spec"]["nodeSelector"]["capacity"], "spot");
  EXPECT_EQ((*pod)["spec"]["nodeSelector"]["disk"], "fast");
  EXPECT_THAT((*pod)["spec"]["tolerations"],
              testing::Contains(json{{"key", "spot"}, {"operator", "Exists"}}));
  const auto trainer = BuildTrainerPod(job, 1, {1, 1}, kOptions);
  ASSERT_TRUE(trainer.ok());
  EXPECT_FALSE((*trainer)["spec"]["nodeSelector"].contains("capacity"));
}

}  // namespace
}  // namespace swarm::objects
