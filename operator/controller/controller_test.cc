#include "operator/controller/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "operator/controller/informers.h"
#include "operator/controller/testing/client_under_test.h"
#include "operator/controller/testing/cluster_under_test.h"

namespace swarm::controller {
namespace {

using kube::resources::Pods;
using kube::resources::SwarmJobs;

class ControllerTest : public testing::Test {
 protected:
  std::size_t PodCount(const std::string& job) const {
    std::size_t count = 0;
    for (const auto& pod : cluster_.server->All(Pods())) {
      count += kube::LabelOf(pod, "swarmjob.dev/job") == job;
    }
    return count;
  }
  static ControllerOptions Options() {
    ControllerOptions options;
    options.reconcilers = 3;
    options.pods.worker_image = "worker:1";
    options.instance = "test";
    return options;
  }

  ClusterUnderTest cluster_;
  std::stop_source stop_;
  std::unique_ptr<kube::Client> client_ = MakeClientUnderTest(cluster_.server, stop_.get_token());
  Controller controller_{*client_, Options(), cluster_.trainers.connect(), kube::SystemTiming()};
};

TEST_F(ControllerTest, AJobThatIsSubmittedGetsItsPods) {
  controller_.Start();
  controller_.Lead(1);
  cluster_.Submit();
  EXPECT_TRUE(cluster_.server->Await([&] { return PodCount("tiny") == 5; }));
}

TEST_F(ControllerTest, JobsThatWereThereBeforeAreLookedAt) {
  cluster_.Submit();
  cluster_.Submit("{}", {"other", "tiny2"});
  controller_.Start();
  controller_.Lead(1);
  EXPECT_TRUE(
      cluster_.server->Await([&] { return PodCount("tiny") == 5 && PodCount("tiny2") == 5; }));
}

TEST_F(ControllerTest, AStandbyFillsItsCachesAndWritesNothing) {
  cluster_.Submit();
  controller_.Start();
  ASSERT_TRUE(cluster_.server->Await([&] { return controller_.synced(); }));
  controller_.Stop();
  EXPECT_THAT(cluster_.server->writes(), testing::IsEmpty());
}

TEST_F(ControllerTest, TheTroubleOfOneJobDoesNotHoldUpAnother) {
  cluster_.server->SetHook([](const FakeApiServer::Call& call) {
    return call.name.name.starts_with("bad") && call.plural != "swarmjobs"
               ? std::optional(Refusal(500, "InternalError", "a webhook that is broken"))
               : std::nullopt;
  });
  cluster_.Submit("{}", {"team", "bad"});
  controller_.Start();
  controller_.Lead(1);
  cluster_.Submit();
  EXPECT_TRUE(cluster_.server->Await([&] { return PodCount("tiny") == 5; }));
  EXPECT_EQ(PodCount("bad"), 0u);
  EXPECT_FALSE(cluster_.server->Find(SwarmJobs(), {"team", "bad"})->contains("status"));
}

TEST_F(ControllerTest, AJobThatNobodyCouldHaveWrittenIsNoDisaster) {
  cluster_.server->Put(
      SwarmJobs(),
      {{"metadata", {{"name", "odd"}, {"namespace", "team"}}}, {"spec", 7}, {"status", "none"}});
  controller_.Start();
  controller_.Lead(1);
  cluster_.Submit();
  EXPECT_TRUE(cluster_.server->Await([&] { return PodCount("tiny") == 5; }));
}

TEST_F(ControllerTest, ANoticeThatChangesItsReasonWakesTheJobAndAHeartbeatDoesNot) {
  const auto set_condition = [&](const char* member, const char* value) {
    cluster_.server->Edit(kube::resources::Nodes(), {"", "node-1"}, [&](nlohmann::json& node) {
      node["status"]["conditions"][0][member] = value;
    });
  };
  cluster_.server->Put(
      Pods(),
      {{"metadata",
        {{"name", "tiny-w0"}, {"namespace", "team"}, {"labels", {{"swarmjob.dev/job", "tiny"}}}}}});
  cluster_.RunPods();
  std::atomic<int> woken{0};
  Informers informers(*client_, {}, [&](const std::string&) { ++woken; }, kube::SystemTiming());
  informers.Start();
  ASSERT_TRUE(cluster_.server->Await([&] { return informers.synced(); }));
  const int before = woken;
  set_condition("lastHeartbeatTime", "2026-01-01T00:00:10Z");
  set_condition("reason", "SpotInterruption");
  ASSERT_TRUE(cluster_.server->Await([&] { return woken > before; }));
  set_condition("lastHeartbeatTime", "2026-01-01T00:00:20Z");
  // The nodes are watched in order: once this is seen, so was the heartbeat.
  cluster_.server->Edit(kube::resources::Nodes(), {"", "node-1"},
                        [](nlohmann::json& node) { node["spec"]["taints"] = {{{"key", "t"}}}; });
  ASSERT_TRUE(cluster_.server->Await([&] { return woken > before + 1; }));
  EXPECT_EQ(woken, before + 2);
}

TEST_F(ControllerTest, ItsMetricsHaveAllSeriesFromTheStart) {
  std::set<Metric> seen;
  for (const MetricSample& sample : controller_.Samples()) {
    EXPECT_EQ(sample.labels.size(), DefinitionOf(sample.metric).labels.size())
        << DefinitionOf(sample.metric).name;
    seen.insert(sample.metric);
  }
  EXPECT_TRUE(seen.contains(Metric::kReconciles) && seen.contains(Metric::kQueueDepth) &&
              seen.contains(Metric::kOperatorJobs));
}

}  // namespace
}  // namespace swarm::controller
