#include "operator/plan/pods/gone.h"

#include <gmock/gmock.h>

#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

using testing::Contains;
using testing::Not;

ObservedJob JobWith(std::uint64_t reserved, std::vector<std::uint64_t> open) {
  ObservedJob job{.name = "tiny"};
  job.status.nextWorkerOrdinal = reserved;
  job.status.openWorkers = std::move(open);
  return job;
}

ObservedPod Pod(std::uint64_t number, PodPhase phase = PodPhase::kRunning,
                const std::string& cluster = "") {
  return {.number = number, .cluster = cluster, .phase = phase};
}

TEST(GoneTest, APodThatIsNeitherOpenNorSeenIsGone) {
  EXPECT_EQ(GoneWorkers(JobWith(6, {1, 4}), {Pod(1), Pod(4, PodPhase::kRunning, "west")}),
            (protocol::Retired{"tiny-w", 6, {1, 4}}));
  EXPECT_EQ(GoneWorkers(JobWith(0, {}), {}).count(), 0u);
}

TEST(GoneTest, APodThatIsNotSeenYetIsNot) {
  EXPECT_EQ(GoneWorkers(JobWith(2, {0, 1}), {}).count(), 0u);
}

TEST(GoneTest, APodThatHandsOverWhatItHasAfterItsNumberWasClosedIsNot) {
  EXPECT_EQ(GoneWorkers(JobWith(2, {1}), {Pod(0), Pod(1)}).count(), 0u);
}

TEST(GoneTest, APodThatHasEndedIsGoneAlthoughItIsStillListed) {
  EXPECT_EQ(GoneWorkers(JobWith(3, {1}),
                        {Pod(0, PodPhase::kFailed), Pod(1), Pod(2, PodPhase::kSucceeded)}),
            (protocol::Retired{"tiny-w", 3, {1}}));
}

TEST(GoneTest, AnOldStatusRetiresNobodyWhoIsThere) {
  EXPECT_EQ(GoneWorkers(JobWith(1, {0}), {Pod(0), Pod(1)}).count(), 0u);
}

TEST(GoneTest, TheTrainerHearsOfALostWorkerOnceAndTheNextTrainerToo) {
  FakeCluster cluster(4, 2);
  ASSERT_TRUE(cluster.Settle());
  EXPECT_THAT(cluster.done, Not(Contains("retire 1")));
  cluster.DeletePodByAnotherClient("job-w2");
  ASSERT_TRUE(cluster.Settle());
  EXPECT_EQ(std::ranges::count(cluster.done, "retire 1"), 1);
  cluster.DeletePodByAnotherClient("job-trainer-1");
  cluster.Live(60);
  EXPECT_EQ(std::ranges::count(cluster.done, "retire 1"), 2);
  EXPECT_TRUE(cluster.violations.empty());
}

}  // namespace
}  // namespace swarm::plan
