#include "ctl/cluster/cluster_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr api::WallTime kNow{std::chrono::seconds(1'000'000)};

objects::JobView Job(const std::string& name) {
  objects::JobView job;
  job.ns = "team";
  job.name = name;
  job.creation_time = kNow - std::chrono::hours(2);
  job.job.spec.training.maxSteps = 200;
  job.status.state = api::JobState::kRunning;
  job.status.step = 120;
  job.status.plan = {.replicas = 4, .minReplicas = 2, .layout = {2, 2}};
  job.status.readyReplicas = 3;
  job.status.stages = {{0, 2}, {1, 1}};
  job.status.preemptions = 7;
  job.status.lastCheckpoint = {100, kNow - std::chrono::minutes(5)};
  return job;
}

TEST(ClusterViewTest, AJobIsARow) {
  const auto lines = RenderCluster({.jobs = {Job("llama")}, .now = kNow}, 200);
  EXPECT_THAT(
      lines,
      ElementsAre("NAMESPACE  NAME   STATE    STEP     READY  STAGES   PREEMPTIONS  FAILURES  "
                  "CHECKPOINT           AGE",
                  "team       llama  Running  120/200  3/4    2/2 1/2  7            0         "
                  "step 100, 5m00s ago  2h00m"));
}

TEST(ClusterViewTest, AJobThatHasNothingYetSaysSo) {
  objects::JobView fresh;
  fresh.ns = "team";
  fresh.name = "new";
  fresh.creation_time = kNow;
  const auto lines = RenderCluster({.jobs = {fresh}, .now = kNow}, 200);
  EXPECT_THAT(lines[1], HasSubstr("new   Pending  0/0   0/0    -       0            0         -"));
}

TEST(ClusterViewTest, DetailsAreConditionsAndPods) {
  objects::JobView job = Job("llama");
  job.status.conditions = {{.type = "Ready",
                            .status = api::ConditionStatus::kTrue,
                            .lastTransitionTime = kNow - std::chrono::minutes(1),
                            .reason = "AllStages",
                            .message = "every stage has a ready worker"}};
  plan::ObservedPod pod;
  pod.name = "llama-w3";
  pod.pool = "spot";
  pod.phase = plan::PodPhase::kRunning;
  pod.node = "n1";
  pod.created = kNow - std::chrono::seconds(30);
  plan::ObservedPod leaving = pod;
  leaving.name = "llama-w4";
  leaving.deleted = kNow;
  const auto lines =
      RenderCluster({.jobs = {job}, .pods = {pod, leaving}, .details = true, .now = kNow}, 200);
  ASSERT_THAT(lines, SizeIs(9));
  EXPECT_EQ(lines[4], "Ready      True    1m00s  AllStages  every stage has a ready worker");
  EXPECT_EQ(lines[7], "llama-w3  spot  Running      30s  n1");
  EXPECT_EQ(lines[8], "llama-w4  spot  Terminating  30s  n1");
}

TEST(ClusterViewTest, NoLineIsWiderThanTheScreen) {
  for (const std::string& line : RenderCluster({.jobs = {Job("llama")}, .now = kNow}, 40)) {
    EXPECT_LE(line.size(), 40u);
  }
}

}  // namespace
}  // namespace swarm::ctl
