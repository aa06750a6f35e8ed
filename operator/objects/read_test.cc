#include "operator/objects/read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>

#include "api/status_json.h"
#include "operator/names/names.h"
#include "operator/objects/testing/job_under_test.h"
#include "operator/objects/trim.h"

namespace swarm::objects {
namespace {

using nlohmann::json;
using plan::PodPhase;
using plan::PodRole;
using testing::HasSubstr;
using testing::IsEmpty;

api::WallTime At(const char* time) { return *api::ParseTime(time); }

json PodObject() {
  return json::parse(R"({
    "metadata": {"name": "tiny-w7", "namespace": "team", "uid": "u-7",
                 "creationTimestamp": "2026-11-21T14:00:00Z",
                 "labels": {"swarmjob.dev/job": "tiny", "swarmjob.dev/role": "worker",
                            "swarmjob.dev/ordinal": "7", "swarmjob.dev/pool": "spot"}},
    "spec": {"nodeName": "n1", "containers": []},
    "status": {"phase": "Running",
      "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T14:00:05Z"},
        {"type": "Ready", "status": "True"}],
      "containerStatuses": [
        {"name": "sidecar", "state": {"terminated": {"exitCode": 9}}},
        {"name": "worker", "state": {"running": {}}}]}
  })");
}

json NodeObject() {
  return json::parse(R"({
      "metadata": {"name": "n1", "uid": "u", "creationTimestamp": "2026-11-21T14:00:00Z",
                   "labels": {"kubernetes.io/hostname": "ip-10-0-0-7", "zone": "a"}},
      "spec": {"taints": [{"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}]},
      "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                                 "message": "Kubelet stopped"}]}})");
}

/// The pod with `change` merged into it.
plan::ObservedPod PodWith(const std::string& change) {
  json object = PodObject();
  object.merge_patch(json::parse(change));
  const auto pod = ReadPod(object);
  EXPECT_TRUE(pod.has_value()) << change;
  return pod.value_or(plan::ObservedPod());
}

TEST(ReadPodTest, APodWithoutANodeHasTheSchedulersWords) {
  const plan::ObservedPod pod = PodWith(R"({
    "spec": {"nodeName": null},
    "status": {"phase": "Pending", "containerStatuses": null, "conditions": [
      {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
       "message": "0/3 nodes are available"}]}})");
  EXPECT_EQ(pod.unscheduled_reason, "Unschedulable");
  EXPECT_EQ(pod.unscheduled_message, "0/3 nodes are available");
  EXPECT_EQ(pod.scheduled, std::nullopt);
  EXPECT_EQ(PodWith("{}").unscheduled_reason, "");
}

TEST(ReadJobTest, AJobIsItsManifestWithDefaultsItsStatusAndItsIdentity) {
  json object = JobObject();
  object["status"] = {{"nextWorkerOrdinal", 5}, {"openWorkers", "1-3"}};
  const JobView view = View(object);
  EXPECT_THAT(view.errors, IsEmpty());
  EXPECT_EQ(view.ns + "/" + view.name + " " + view.uid, "team/tiny 1-2-3");
  EXPECT_EQ(view.generation, 4u);
  EXPECT_EQ(view.resource_version, "77");
  EXPECT_EQ(view.creation_time, At("2026-11-21T14:00:00Z"));
  EXPECT_EQ(view.labels.at("team"), "a");
  EXPECT_FALSE(view.deleting);
  EXPECT_EQ(view.job.name, "tiny");
  EXPECT_EQ(view.job.spec.model.config.head_dim, 16);
  EXPECT_EQ(view.job.spec.workers.pools.size(), 1u);
  EXPECT_EQ(view.status.openWorkers, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST(ReadJobTest, EverythingThatIsWrongWithAManifestIsTold) {
  json object = JobObject();
  object["spec"]["training"]["microbatchSize"] = 3;
  object["spec"]["model"]["config"]["rope_scaling"] = {{"factor", 2}};
  const JobView view = View(object);
  EXPECT_THAT(api::ToString(view.errors), HasSubstr("spec.model.config.rope_scaling"));
  object["spec"]["model"]["config"].erase("rope_scaling");
  EXPECT_THAT(api::ToString(View(object).errors), HasSubstr("spec.training.globalBatchSize"));
}

TEST(ReadJobTest, WhatOnlyOneMachineCanDoIsToldToo) {
  json object = JobObject();
  object["spec"].erase("checkpoint");
  EXPECT_THAT(api::ToString(View(object).errors), HasSubstr("spec.checkpoint.uri"));
}

TEST(ReadJobTest, AnItemOfAListNeedsNoKind) {
  json object = JobObject();
  object.erase("kind");
  object.erase("apiVersion");
  EXPECT_THAT(View(object).errors, IsEmpty());
}

TEST(ReadJobTest, AStatusThatIsNotOursStopsTheReading) {
  json object = JobObject();
  object["status"] = {{"nextWorkerOrdinal", "seven"}};
  const Result<JobView> view = ReadJob(object);
  EXPECT_EQ(view.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(view.status().message(), HasSubstr("team/tiny: status.nextWorkerOrdinal"));
}

TEST(ReadJobTest, WhatHasNoIdentityIsNoObject) {
  for (const char* key : {"name", "namespace", "uid"}) {
    json object = JobObject();
    object["metadata"].erase(key);
    EXPECT_EQ(ReadJob(object).status().code(), StatusCode::kInvalidArgument) << key;
  }
  EXPECT_FALSE(ReadJob(json(5)).ok());
}

TEST(ReadJobTest, WhatIsNestedTooDeepIsRefusedNotFollowed) {
  json deep = json::object();
  for (int i = 0; i < 20'000; ++i) deep = json::object({{"d", std::move(deep)}});
  json object = JobObject();
  object["spec"]["workers"]["template"] = std::move(deep);
  EXPECT_THAT(api::ToString(View(object).errors), HasSubstr("nested too deep"));
}

TEST(ReadPodTest, ARunningWorkerIsReadFromItsLabelsAndStatus) {
  const plan::ObservedPod pod = PodWith("{}");
  EXPECT_EQ(pod.name, "tiny-w7");
  EXPECT_EQ(pod.uid, "u-7");
  EXPECT_EQ(pod.role, PodRole::kWorker);
  EXPECT_EQ(pod.number, 7u);
  EXPECT_EQ(pod.pool, "spot");
  EXPECT_EQ(pod.phase, PodPhase::kRunning);
  EXPECT_TRUE(pod.ready);
  EXPECT_FALSE(pod.gated);
  EXPECT_EQ(pod.node, "n1");
  EXPECT_EQ(pod.created, At("2026-11-21T14:00:00Z"));
  EXPECT_EQ(pod.scheduled, At("2026-11-21T14:00:05Z"));
  EXPECT_EQ(pod.end, std::nullopt);
  EXPECT_EQ(pod.deleted, std::nullopt);
}

TEST(ReadPodTest, ATrainerHasATerm) {
  const plan::ObservedPod pod = PodWith(R"({"metadata": {"name": "tiny-trainer-3", "labels": {
      "swarmjob.dev/role": "trainer", "swarmjob.dev/term": "3"}}})");
  EXPECT_EQ(pod.role, PodRole::kTrainer);
  EXPECT_EQ(pod.number, 3u);
  EXPECT_EQ(pod.pool, "");
}

TEST(ReadPodTest, TheEndOfTheMainContainerIsEvidence) {
  const plan::ObservedPod pod = PodWith(R"({"status": {"phase": "Failed", "containerStatuses": [
      {"name": "sidecar", "state": {"terminated": {"exitCode": 0}}},
      {"name": "worker", "state": {"terminated": {"exitCode": 137, "signal": 9,
          "reason": "OOMKilled", "message": "last words",
          "finishedAt": "2026-11-21T14:10:00Z"}}}]}})");
  EXPECT_EQ(pod.phase, PodPhase::kFailed);
  ASSERT_TRUE(pod.end.has_value());
  EXPECT_EQ(*pod.end,
            (plan::ContainerEnd{137, 9, "OOMKilled", "last words", At("2026-11-21T14:10:00Z")}));
}

TEST(ReadPodTest, ADisruptionIsEvidenceOnlyWhileItsConditionIsTrue) {
  const std::string condition = R"({"status": {"conditions": [{"type": "DisruptionTarget",
      "reason": "EvictionByEvictionAPI", "message": "drain", "status": )";
  EXPECT_EQ(PodWith(condition + R"("True"}]}})").disruption, "EvictionByEvictionAPI");
  EXPECT_EQ(PodWith(condition + R"("True"}]}})").disruption_message, "drain");
  EXPECT_EQ(PodWith(condition + R"("False"}]}})").disruption, "");
}

TEST(ReadPodTest, APodThatWaitsSaysForWhat) {
  EXPECT_TRUE(
      PodWith(R"({"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}})").gated);
  const plan::ObservedPod pod = PodWith(R"({"status": {"phase": "Pending", "containerStatuses": [
      {"name": "worker", "state": {"waiting": {"reason": "ErrImagePull", "message": "404"}}}]}})");
  EXPECT_EQ(pod.waiting_reason, "ErrImagePull");
  EXPECT_EQ(pod.waiting_message, "404");
}

TEST(ReadPodTest, AShutDownNodeLeavesItsReason) {
  const plan::ObservedPod pod = PodWith(
      R"({"metadata": {"deletionTimestamp": "2026-11-21T14:20:00Z"},
          "status": {"phase": "Failed", "reason": "Terminated", "message": "node shutdown"}})");
  EXPECT_EQ(pod.deleted, At("2026-11-21T14:20:00Z"));
  EXPECT_EQ(pod.reason, "Terminated");
  EXPECT_EQ(pod.message, "node shutdown");
}

TEST(ReadPodTest, APodThatIsNotOneOfAJobIsNone) {
  for (const char* change :
       {R"({"metadata": {"labels": null}})", R"({"metadata": {"uid": ""}})",
        R"({"metadata": {"labels": {"swarmjob.dev/role": "cook"}}})",
        R"({"metadata": {"labels": {"swarmjob.dev/ordinal": "8"}}})",
        R"({"metadata": {"labels": {"swarmjob.dev/ordinal": "07"}}})",
        R"({"metadata": {"labels": {"swarmjob.dev/ordinal": "99999999999999999999"}}})",
        R"({"metadata": {"name": "other"}})", R"({"metadata": 5})"}) {
    json object = PodObject();
    object.merge_patch(json::parse(change));
    EXPECT_EQ(ReadPod(object), std::nullopt) << change;
  }
}

// Every place in `value` that can be replaced.
void Places(json& value, std::vector<json*>* places) {
  places->push_back(&value);
  for (json& child : value) {
    if (value.is_structured()) Places(child, places);
  }
}

// Puts values of all kinds into any places of an object.
void Spoil(json* object) {
  static const std::vector<json> kValues = {nullptr,
                                            -1,
                                            1e300,
                                            "text",
                                            true,
                                            json::array({1}),
                                            json::object({{"name", 5}}),
                                            std::numeric_limits<std::uint64_t>::max()};
  const int edits = *rc::gen::inRange(1, 5);
  for (int i = 0; i < edits; ++i) {
    std::vector<json*> places;
    Places(*object, &places);
    json* place = places[*rc::gen::inRange<std::size_t>(0, places.size())];
    *place = kValues[*rc::gen::inRange<std::size_t>(0, kValues.size())];
  }
}

TEST(TrimTest, WhatIsReadIsKeptAndTheRestIsNot) {
  json pod = PodObject();
  pod["metadata"].update(json::parse(R"({"managedFields": [{}], "resourceVersion": "5",
      "ownerReferences": [{"kind": "SwarmJob", "uid": "u", "controller": true}]})"));
  pod["status"].update(
      json::parse(R"({"podIP": "10.0.0.7", "hostIP": "10.0.0.1", "qosClass": "Burstable"})"));
  pod["status"]["conditions"].push_back({{"type", "Initialized"}, {"status", "True"}});
  pod["spec"]["volumes"] = json::array({1});
  json trimmed = pod;
  TrimPod(trimmed);
  EXPECT_EQ(trimmed["metadata"]["resourceVersion"], "5");
  EXPECT_EQ(trimmed["metadata"]["ownerReferences"],
            json::parse(R"([{"uid": "u", "controller": true}])"));
  EXPECT_EQ(trimmed["spec"], json({{"nodeName", "n1"}}));
  EXPECT_EQ(trimmed["status"]["podIP"], "10.0.0.7");
  EXPECT_EQ(trimmed["status"]["conditions"].size(), 2u);
  EXPECT_FALSE(trimmed["status"].contains("qosClass"));
}

TEST(TrimTest, APodThatSharesASecretIsStillKnownByIt) {
  json pod = PodObject();
  EXPECT_FALSE(ReadPod(pod)->shares_identities);
  const std::string job = pod["metadata"]["labels"]["swarmjob.dev/job"];
  pod["spec"]["volumes"] = {
      {{"name", "tmp"}}, {{"name", "identity"}, {"secret", {{"secretName", job + "-identities"}}}}};
  EXPECT_TRUE(ReadPod(pod)->shares_identities);
  TrimPod(pod);
  EXPECT_TRUE(ReadPod(pod)->shares_identities);
  EXPECT_EQ(pod["spec"]["volumes"].size(), 1u);
}

TEST(TrimTest, NoReaderMissesAnything) {
  EXPECT_TRUE(rc::check("trimmed and whole objects read alike, whatever they are", [] {
    json object = *rc::gen::arbitrary<bool>() ? PodObject() : NodeObject();
    object["status"]["reason"] = "Evicted";
    object["spec"]["schedulingGates"] = json::array({{{"name", "kueue"}}});
    object["spec"]["volumes"] =
        json::array({{{"name", "identity"}, {"secret", {{"secretName", "tiny-identities"}}}}});
    Spoil(&object);
    json pod = object, node = object;
    TrimPod(pod);
    TrimNode(node);
    RC_ASSERT(ReadPod(pod) == ReadPod(object));
    RC_ASSERT(ReadNode(node) == ReadNode(object));
  }));
}

TEST(ReadNodeTest, ANodeIsItsTaintsAndConditions) {
  const plan::ObservedNode node = ReadNode(NodeObject());
  EXPECT_EQ(node.uid, "u");
  EXPECT_EQ(node.hostname, "ip-10-0-0-7");
  EXPECT_EQ(node.created, At("2026-11-21T14:00:00Z"));
  EXPECT_FALSE(node.deleted);
  ASSERT_EQ(node.taints.size(), 1u);
  EXPECT_EQ(node.taints[0],
            (plan::Taint{"aws-node-termination-handler/spot-itn", "", "NoSchedule"}));
  ASSERT_EQ(node.conditions.size(), 1u);
  EXPECT_EQ(node.conditions[0],
            (plan::NodeCondition{"Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped"}));
}

TEST(ReadTest, ObjectsWithAnyValueAnywhereAreAnswered) {
  EXPECT_TRUE(rc::check("nothing is thrown, whatever stands where", [] {
    json job = JobObject(), pod = PodObject();
    job["status"] = api::StatusToJson({});
    Spoil(&job);
    Spoil(&pod);
    const Result<JobView> view = ReadJob(job);
    const bool says_why = view.ok() || !view.status().message().empty();
    RC_ASSERT(says_why);
    const Result<JobView> no_job = ReadJob(pod);
    const bool refused = !no_job.ok() || !no_job->errors.empty();
    RC_ASSERT(refused);
    ReadPod(pod);
    ReadNode(pod);
    ReadPod(job);
    ReadNode(job);
  }));
}

TEST(NamesTest, ALabelsNumberIsSpelledInOneWayOnly) {
  EXPECT_EQ(names::ParseNumber("0"), 0u);
  EXPECT_EQ(names::ParseNumber("18446744073709551615"), 18446744073709551615u);
  for (const char* text : {"", "-1", "+1", "01", "1 ", "1x", "18446744073709551616"}) {
    EXPECT_EQ(names::ParseNumber(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace swarm::objects
