// What a job has in another cluster, and how its pods there are read.
#include "operator/objects/outpost.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/names/names.h"
#include "operator/objects/build.h"
#include "operator/objects/read.h"
#include "operator/objects/trim.h"

namespace swarm::objects {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

JobView View() {
  JobView view;
  view.ns = "team";
  view.name = "tiny";
  view.uid = "job-1";
  view.job.spec.workers.pools = {{.name = "here"}, {.name = "there", .cluster = "west"}};
  return view;
}

json PodThere() {
  auto pod = BuildWorkerPod(View(), 3, View().job.spec.workers.pools[1], {.worker_image = "w:1"});
  SWARM_CHECK(pod.ok(), pod.status().ToString());
  OwnByOutpost(View(), "outpost-1", &*pod);
  (*pod)["metadata"]["uid"] = "pod-3";
  return *pod;
}

TEST(OutpostTest, OfOtherClustersAJobHasThoseThatItsPoolsName) {
  EXPECT_THAT(ClustersOf(View().job.spec), ElementsAre("west"));
  EXPECT_THAT(ClustersOf({}), IsEmpty());
}

TEST(OutpostTest, AConfigMapOwnsWhatTheJobCannotOwnThere) {
  const json outpost = BuildOutpost(View());
  EXPECT_EQ(outpost["metadata"]["name"], "tiny-outpost");
  EXPECT_FALSE(outpost["metadata"].contains("ownerReferences"));
  EXPECT_EQ(outpost["metadata"]["labels"][names::kJobUidLabel], "job-1");
  for (const json& part : BuildOutpostParts(View(), "west", "outpost-1", "10.0.0.7")) {
    const json& owner = part["metadata"]["ownerReferences"];
    ASSERT_EQ(owner.size(), 1u) << part;
    EXPECT_EQ(owner[0]["kind"], "ConfigMap") << part;
    EXPECT_EQ(owner[0]["uid"], "outpost-1") << part;
    EXPECT_EQ(part["metadata"]["labels"][names::kJobUidLabel], "job-1") << part;
  }
}

TEST(OutpostTest, ItsDisruptionBudgetSelectsTheWorkersThere) {
  const std::vector<json> parts = BuildOutpostParts(View(), "west", "outpost-1", "");
  const auto budget = std::ranges::find(parts, "PodDisruptionBudget",
                                        [](const json& part) { return part["kind"]; });
  ASSERT_NE(budget, parts.end());
  EXPECT_EQ((*budget)["metadata"]["name"], names::DisruptionBudgetName("tiny"));
  const json labels = PodThere()["metadata"]["labels"];
  for (const auto& [key, value] : (*budget)["spec"]["selector"]["matchLabels"].items()) {
    EXPECT_EQ(labels[key], value) << key;
  }
}

TEST(OutpostTest, TheStatusOfAJobNamesItsClusters) {
  const json job{{"status", {{"clusters", {{{"name", "west"}}, {{"state", "Away"}}, 7}}}}};
  EXPECT_THAT(ClustersOfStatus(job), ElementsAre("west"));
  EXPECT_THAT(ClustersOfStatus(json::object()), IsEmpty());
  EXPECT_THAT(ClustersOfStatus({{"status", {{"clusters", "west"}}}}), IsEmpty());
}

TEST(OutpostTest, TheTrainersNameMeansItsAddressAtHome) {
  const auto slice = [](const std::string& address) {
    for (const json& part : BuildOutpostParts(View(), "west", "outpost-1", address)) {
      if (part["kind"] == "EndpointSlice") return part;
    }
    return json();
  };
  EXPECT_EQ(slice("10.0.0.7")["endpoints"][0]["addresses"], json::array({"10.0.0.7"}));
  EXPECT_EQ(slice("10.0.0.7")["addressType"], "IPv4");
  EXPECT_EQ(slice("fd00::7")["addressType"], "IPv6");
  EXPECT_THAT(slice("")["endpoints"], IsEmpty());
  EXPECT_EQ(slice("")["metadata"]["labels"]["kubernetes.io/service-name"],
            names::TrainerServiceName("tiny"));
  const json service = BuildOutpostParts(View(), "west", "outpost-1", "")[0];
  EXPECT_EQ(service["metadata"]["name"], names::TrainerServiceName("tiny"));
  EXPECT_FALSE(service["spec"].contains("selector")) << "pods there would be taken for the trainer";
}

TEST(OutpostTest, APodThereIsReadAsThatOfTheJob) {
  json pod = PodThere();
  pod["spec"]["nodeName"] = "node-1";
  TrimPod(pod);
  LocalizePod("west", &pod);
  const auto read = ReadPod(pod);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->cluster, "west");
  EXPECT_EQ(read->pool, "there");
  EXPECT_EQ(read->number, 3u);
  EXPECT_EQ(read->node, "west/node-1");
  EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["uid"], "job-1");
  const NodeAt at = ParseNode(read->node);
  EXPECT_EQ(at.cluster, "west");
  EXPECT_EQ(at.name, "node-1");
}

TEST(OutpostTest, APodOfTheJobsOwnClusterCannotPassForOneElsewhere) {
  json pod = PodThere();
  pod["cluster"] = "west";
  TrimPod(pod);
  EXPECT_EQ(ReadPod(pod)->cluster, "");
}

TEST(OutpostTest, WhatIsNoObjectIsLeftAsItIs) {
  json text = "nonsense";
  LocalizePod("west", &text);
  LocalizeNode("west", &text);
  EXPECT_EQ(text, "nonsense");
}

}  // namespace
}  // namespace swarm::objects
