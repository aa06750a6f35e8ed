// Stories of a job with pools in two clusters: what its status says of the other one.
#include "operator/plan/clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

using api::ClusterState;
using api::ConditionStatus;
using api::ConditionType;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

/// Four workers, two of them in the cluster west.
FakeCluster TwoClusters() {
  FakeCluster cluster;
  cluster.spec().workers.pools = {{.name = "here", .maxReplicas = 2},
                                  {.name = "there", .cluster = "west"}};
  cluster.free_slots = {{"here", 1000}, {"there", 1000}};
  cluster.clusters["west"] = {.reachable = true, .since = cluster.now};
  return cluster;
}

/// The same, with a pool at home that takes what the two others lack.
FakeCluster TwoClustersAndASpare() {
  FakeCluster cluster = TwoClusters();
  cluster.spec().workers.pools[1].maxReplicas = 2;
  cluster.spec().workers.pools.push_back({.name = "spare"});
  cluster.free_slots["spare"] = 1000;
  return cluster;
}

void Turn(const std::string& name, bool reachable, FakeCluster* cluster) {
  cluster->clusters[name] = {.reachable = reachable, .since = cluster->now};
}

api::Condition Connected(const FakeCluster& cluster) {
  return cluster.ConditionOf(ConditionType::kClustersConnected);
}

std::vector<std::string> Told(const FakeCluster& cluster, api::Reason reason) {
  std::vector<std::string> messages;
  for (const Event& event : cluster.events) {
    if (event.reason == reason) messages.push_back(event.message);
  }
  return messages;
}

TEST(ClustersTest, TheStatusCountsWorkersByCluster) {
  FakeCluster cluster = TwoClusters();
  cluster.Live(60);
  EXPECT_EQ(cluster.status().readyByCluster, "home 2/2, west 2/2");
  ASSERT_THAT(cluster.status().clusters, SizeIs(1));
  EXPECT_EQ(cluster.status().clusters[0].replicas, 2u);
  EXPECT_EQ(cluster.status().clusters[0].readyReplicas, 2u);
  EXPECT_EQ(cluster.status().readyReplicas, 4u);
  EXPECT_EQ(Connected(cluster).status, ConditionStatus::kTrue);
  EXPECT_EQ(Connected(cluster).reason, "EveryClusterConnected");
  EXPECT_THAT(Told(cluster, api::Reason::kClusterAway), IsEmpty());
}

TEST(ClustersTest, AJobInOneClusterSaysNothingOfClusters) {
  FakeCluster cluster;
  cluster.Live(60);
  EXPECT_EQ(api::FindCondition(cluster.status(), ConditionType::kClustersConnected), nullptr);
  EXPECT_THAT(cluster.status().clusters, IsEmpty());
  EXPECT_EQ(cluster.status().readyByCluster, "");
}

TEST(ClustersTest, AClusterThatIsAwayIsToldOnceWithWhatGoesOnAndWhatDoesNot) {
  FakeCluster cluster = TwoClusters();
  cluster.Live(60);
  const WallTime gone = cluster.now;
  Turn("west", false, &cluster);
  cluster.Live(25);
  EXPECT_EQ(Connected(cluster).status, ConditionStatus::kTrue) << "it may be back at once";
  cluster.Live(600);
  const api::Condition away = Connected(cluster);
  EXPECT_EQ(away.status, ConditionStatus::kFalse);
  EXPECT_EQ(away.reason, "ClusterAway");
  EXPECT_THAT(away.message,
              AllOf(HasSubstr("cluster west has been away since " + api::FormatTime(gone)),
                    HasSubstr("2 of 2 ready, go on"), HasSubstr("no pod is made or removed")));
  EXPECT_THAT(Told(cluster, api::Reason::kClusterAway), ElementsAre(HasSubstr("cluster west")));
  EXPECT_EQ(cluster.status().readyByCluster, "home 2/2, west 2/2 (away)");
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);

  Turn("west", true, &cluster);
  cluster.Live(25);
  EXPECT_EQ(Connected(cluster).status, ConditionStatus::kFalse) << "it may be gone at once";
  cluster.Live(30);
  EXPECT_EQ(Connected(cluster).status, ConditionStatus::kTrue);
  EXPECT_THAT(Told(cluster, api::Reason::kClusterReturned),
              ElementsAre("cluster west is connected"));
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(ClustersTest, WorkersThatTheTrainerHearsNoMoreAreReplacedElsewhereWhileTheirClusterIsAway) {
  FakeCluster cluster = TwoClustersAndASpare();
  cluster.Live(60);
  const std::vector<std::string> west = cluster.In("there");
  ASSERT_THAT(west, SizeIs(2));
  Turn("west", false, &cluster);
  // Told to end, they handed over what they had: no eviction, and no word of their pods.
  for (const std::string& pod : west) cluster.handed_over.insert(pod);
  cluster.Live(60);
  EXPECT_THAT(cluster.In("spare"), IsEmpty()) << "it may be back soon";
  cluster.Live(60);
  EXPECT_THAT(cluster.In("spare"), SizeIs(2));
  EXPECT_EQ(cluster.status().readyByCluster, "home 4/4, west 0/2 (away)");
  EXPECT_THAT(Connected(cluster).message,
              HasSubstr("of the job's workers there, 2, none is ready"));
  EXPECT_EQ(cluster.status().unexplained, 0u) << "it is not known that they have ended";

  // Back, the cluster says how it was.
  Turn("west", true, &cluster);
  for (const std::string& pod : west) cluster.End(pod, 0, "Completed");
  cluster.Live(600);
  EXPECT_EQ(cluster.status().readyByCluster, "home 2/2, west 2/2");
  EXPECT_THAT(cluster.In("spare"), IsEmpty()) << "pools that the manifest names first are used";
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(ClustersTest, WorkersThatHadNotStartedWhenTheirClusterWentAwayAreReplacedToo) {
  FakeCluster cluster = TwoClustersAndASpare();
  cluster.Live(60);
  cluster.DeletePodByAnotherClient(cluster.In("there").front());
  cluster.RunPods();
  cluster.free_slots["there"] = 0;
  cluster.Act(cluster.leader);
  ASSERT_THAT(cluster.In("there"), SizeIs(2));
  EXPECT_TRUE(cluster.pods.at(cluster.In("there").back()).node.empty());
  Turn("west", false, &cluster);
  cluster.Live(120);
  EXPECT_EQ(cluster.status().readyByCluster, "home 3/3, west 1/2 (away)");
  EXPECT_THAT(cluster.In("spare"), SizeIs(1));
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(ClustersTest, WorkersThatComeBackWithTheirClusterAreKeptInThePlaceOfTheirReplacements) {
  FakeCluster cluster = TwoClustersAndASpare();
  cluster.Live(60);
  const std::vector<std::string> west = cluster.In("there");
  Turn("west", false, &cluster);
  for (const std::string& pod : west) cluster.handed_over.insert(pod);
  cluster.Live(120);
  ASSERT_THAT(cluster.In("spare"), SizeIs(2));
  Turn("west", true, &cluster);
  cluster.handed_over.clear();
  cluster.Live(600);
  EXPECT_EQ(cluster.In("there"), west);
  EXPECT_THAT(cluster.In("spare"), IsEmpty());
  EXPECT_EQ(cluster.status().readyByCluster, "home 2/2, west 2/2");
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(ClustersTest, AnOperatorThatBeginsWhileAClusterIsAwayKnowsItsWorkersAndGoesOn) {
  FakeCluster cluster = TwoClusters();
  cluster.Live(60);
  const std::vector<std::string> west = cluster.In("there");
  ASSERT_THAT(west, SizeIs(2));
  ASSERT_TRUE(cluster.status().clusters[0].workers);
  EXPECT_THAT(*cluster.status().clusters[0].workers,
              ElementsAre(api::PoolWorkers{"there", {2, 3}}));
  cluster.leader = Leader{.term = 2};
  cluster.never_seen = {"west"};
  Turn("west", false, &cluster);
  cluster.Live(120);
  EXPECT_EQ(cluster.Workers(), (std::vector<std::string>{"job-w0", "job-w1", "job-w2", "job-w3"}));
  EXPECT_EQ(cluster.status().readyByCluster, "home 2/2, west 2/2 (away)");

  // It replaces what is lost at home, and what the trainer hears no more of the other cluster.
  cluster.End("job-w0", 1);
  cluster.Live(120);
  EXPECT_THAT(cluster.In("here"), ElementsAre("job-w1", "job-w4"));
  cluster.spec().workers.pools[0].maxReplicas = 4;
  for (const std::string& pod : west) cluster.handed_over.insert(pod);
  cluster.Live(120);
  EXPECT_THAT(cluster.In("here"), SizeIs(4));
  EXPECT_EQ(cluster.status().readyByCluster, "home 4/4, west 0/2 (away)");

  // It sees them again, and that one of them has ended.
  cluster.never_seen.clear();
  Turn("west", true, &cluster);
  cluster.End(west[0], 0, "Completed");
  cluster.handed_over.erase(west[1]);
  cluster.Live(600);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(ClustersTest, WorkersOfAClusterThatIsAwayAndThatTheManifestNamesNoMoreAreGivenUp) {
  FakeCluster cluster = TwoClusters();
  cluster.Live(60);
  cluster.leader = Leader{.term = 2};
  cluster.never_seen = {"west"};
  cluster.spec().workers.pools.pop_back();
  cluster.spec().workers.pools[0].maxReplicas.reset();
  cluster.clusters.clear();
  cluster.Live(120);
  EXPECT_THAT(cluster.In("here"), SizeIs(4));
  EXPECT_EQ(cluster.status().unexplained, 2u);
}

TEST(ClustersTest, AConnectionThatComesAndGoesTellsNothingBeforeItStaysAway) {
  FakeCluster cluster = TwoClusters();
  cluster.Live(60);
  const std::size_t told = cluster.events.size();
  for (int i = 0; i < 20; ++i) {
    Turn("west", i % 2 == 1, &cluster);
    cluster.Live(20);
  }
  EXPECT_THAT(cluster.events, SizeIs(told));
  EXPECT_EQ(Connected(cluster).status, ConditionStatus::kTrue);
  Turn("west", false, &cluster);
  cluster.Live(40);
  for (int i = 1; i < 20; ++i) {
    Turn("west", i % 2 == 1, &cluster);
    cluster.Live(20);
  }
  EXPECT_THAT(Told(cluster, api::Reason::kClusterAway), SizeIs(1));
  EXPECT_THAT(Told(cluster, api::Reason::kClusterReturned), IsEmpty());
}

TEST(ClustersTest, TheGracePeriodEndsWithoutAnyOtherChange) {
  FakeCluster cluster = TwoClusters();
  cluster.Live(600);
  Turn("west", false, &cluster);
  const Plan plan = cluster.Act(cluster.leader);
  ASSERT_TRUE(plan.look_again.has_value());
  EXPECT_LE(*plan.look_again, cluster.now + kClusterGrace);
}

TEST(ClustersTest, AnotherClusterThatGoesIsToldBesideTheFirst) {
  FakeCluster cluster = TwoClusters();
  cluster.spec().workers.pools.push_back({.name = "far", .cluster = "east"});
  Turn("east", true, &cluster);
  cluster.Live(60);
  Turn("west", false, &cluster);
  cluster.Live(60);
  Turn("east", false, &cluster);
  cluster.Live(60);
  EXPECT_THAT(Told(cluster, api::Reason::kClusterAway),
              ElementsAre(HasSubstr("cluster west"), HasSubstr("cluster east")));
  EXPECT_THAT(Connected(cluster).message, AllOf(HasSubstr("cluster east has been away"),
                                                HasSubstr("cluster west has been away"),
                                                HasSubstr("the job has no workers there")));
}

TEST(ClustersTest, ASatelliteThatHasNeverComeIsExpectedForAWhileAndThenAway) {
  FakeCluster cluster = TwoClusters();
  Turn("west", false, &cluster);
  cluster.Live(10);
  EXPECT_EQ(Connected(cluster).status, ConditionStatus::kUnknown);
  EXPECT_EQ(Connected(cluster).reason, "ClusterExpected");
  EXPECT_EQ(cluster.status().readyByCluster, "home 2/2, west 0/0 (expected)");
  cluster.Live(60);
  EXPECT_EQ(Connected(cluster).reason, "ClusterAway");
  EXPECT_THAT(Told(cluster, api::Reason::kClusterAway), SizeIs(1));
}

TEST(ClustersTest, ANewOperatorDoesNotTellAgainWhatAnEarlierOneHasTold) {
  FakeCluster cluster = TwoClusters();
  cluster.Live(60);
  const WallTime gone = cluster.now;
  Turn("west", false, &cluster);
  cluster.Live(60);
  cluster.leader = Leader{.term = 2};
  Turn("west", false, &cluster);  // the new one knows no earlier time
  cluster.Live(120);
  EXPECT_THAT(Told(cluster, api::Reason::kClusterAway), SizeIs(1));
  EXPECT_THAT(Connected(cluster).message, HasSubstr(api::FormatTime(gone)));
}

TEST(ClustersTest, AClusterThatTheManifestNamesNoMoreIsForgotten) {
  FakeCluster cluster = TwoClusters();
  cluster.Live(60);
  Turn("west", false, &cluster);
  cluster.Live(60);
  cluster.spec().workers.pools.pop_back();
  cluster.spec().workers.pools[0].maxReplicas.reset();
  cluster.clusters.clear();
  cluster.Live(10);
  EXPECT_EQ(api::FindCondition(cluster.status(), ConditionType::kClustersConnected), nullptr);
  EXPECT_THAT(cluster.status().clusters, IsEmpty());
}

TEST(ClustersTest, AJobThatIsOverNeedsAClusterOnlyForThePodsThatItHasThere) {
  FakeCluster cluster = TwoClusters();
  cluster.Live(60);
  Turn("west", false, &cluster);
  cluster.Live(60);
  Observed seen = cluster.Observe(cluster.leader);
  Draft draft(seen);
  draft.Succeed();
  ReportClusters({}, &draft);
  EXPECT_THAT(draft.status().clusters, SizeIs(1)) << "pods are left there";
  std::erase_if(seen.pods, [](const ObservedPod& pod) { return pod.cluster == "west"; });
  ReportClusters({}, &draft);
  EXPECT_THAT(draft.status().clusters, IsEmpty());
}

TEST(ClustersTest, AnOperatorThatKnowsNoPodsThereSaysThatItWaitsAndChangesNothing) {
  FakeCluster cluster = TwoClusters();
  cluster.Live(60);
  const api::SwarmJobStatus before = cluster.status();
  cluster.leader = Leader{.term = 2};
  Turn("west", false, &cluster);
  cluster.Advance(kClusterGrace.count());
  std::erase_if(cluster.pods, [](const auto& each) { return each.second.cluster == "west"; });
  const Plan plan = WaitForClusters(cluster.Observe(cluster.leader));
  EXPECT_NE(plan.write, WriteStatus::kNo);
  EXPECT_THAT(plan.actions, IsEmpty());
  ASSERT_THAT(plan.events, SizeIs(1));
  EXPECT_EQ(plan.events[0].reason, api::Reason::kClusterAway);
  const api::Condition* said = api::FindCondition(plan.status, ConditionType::kClustersConnected);
  ASSERT_NE(said, nullptr);
  EXPECT_THAT(said->message,
              AllOf(HasSubstr("changes nothing of the job"),
                    HasSubstr("take its pools out of the manifest"), Not(HasSubstr("replace"))));
  EXPECT_EQ(plan.status.readyByCluster, "home 2/2, west 2/2 (away)") << "as it was last seen";
  EXPECT_EQ(plan.status.openWorkers, before.openWorkers);
  EXPECT_EQ(plan.status.readyReplicas, before.readyReplicas);
}

}  // namespace
}  // namespace swarm::plan
