// Stories of a job with a queue. The test plays Kueue.
#include "operator/plan/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/format/enum_names.h"
#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

using api::ConditionType;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class AdmissionTest : public testing::Test {
 protected:
  AdmissionTest() { cluster.queue = ObservedQueue{.name = "night"}; }

  ObservedWorkload& workload() { return *cluster.queue->workload; }
  void Admit() {
    workload().has_quota = workload().admitted = true;
    workload().evicted = workload().pods_ready = false;
    workload().words.clear();
  }
  void Evict(const std::string& words) {
    workload().evicted = true;
    workload().words = words;
  }
  std::string Reason(ConditionType type) { return cluster.ConditionOf(type).reason; }
  std::string Words(ConditionType type) { return cluster.ConditionOf(type).message; }
  /// A job that trains with its quota.
  void Train() {
    cluster.Live(30);
    Admit();
    cluster.Live(60);
    ASSERT_EQ(cluster.status().state, api::JobState::kRunning);
  }

  FakeCluster cluster;
};

TEST_F(AdmissionTest, AJobWithAQueueAsksForAllOfItsPodsAndHasNoneUntilItIsAdmitted) {
  cluster.Live(60);
  EXPECT_THAT(cluster.done, testing::ElementsAre("write workload"));
  EXPECT_THAT(workload().pods, UnorderedElementsAre(Pair("spot", 4u)));
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspended);
  EXPECT_EQ(Reason(ConditionType::kAdmitted), "Queued");
  EXPECT_EQ(Reason(ConditionType::kSuspended), "NotAdmitted");
  EXPECT_EQ(Reason(ConditionType::kReady), "NotAdmitted");
  workload().words = "couldn't assign flavors to pod set trainer: insufficient quota";
  cluster.Live(90);
  EXPECT_THAT(Words(ConditionType::kAdmitted), HasSubstr("night: couldn't assign flavors"));
  Admit();
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
  EXPECT_EQ(Reason(ConditionType::kAdmitted), "Admitted");
  EXPECT_TRUE(workload().pods_ready);
  EXPECT_TRUE(cluster.Happened("Queued"));
  EXPECT_TRUE(cluster.Happened("Admitted"));
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST_F(AdmissionTest, AnEvictedJobWritesACheckpointAndGivesItsQuotaBackWhenNoPodIsLeft) {
  Train();
  Evict("Preempted to accommodate a workload of higher priority");
  cluster.Act(cluster.leader);
  EXPECT_TRUE(cluster.pods.at("job-trainer-1").deleted);
  EXPECT_THAT(cluster.Workers(), SizeIs(4)) << "the step needs them";
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspending);
  EXPECT_TRUE(workload().has_quota) << "which the pods use";
  cluster.Live(60);
  EXPECT_THAT(cluster.pods, IsEmpty());
  EXPECT_FALSE(workload().has_quota);
  EXPECT_EQ(Reason(ConditionType::kAdmitted), "Evicted");
  EXPECT_THAT(Words(ConditionType::kAdmitted), HasSubstr("higher priority"));
  EXPECT_TRUE(cluster.Happened("Evicted"));
  Admit();
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_EQ(cluster.status().trainer.term, 2u);
  const api::SwarmJobStatus& status = cluster.status();
  EXPECT_EQ(status.preemptions + status.failures + status.unexplained, 0u)
      << "the operator itself ended these pods";
  EXPECT_EQ(std::ranges::count(cluster.done, "write workload"), 1) << "it kept its place";
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST_F(AdmissionTest, AWorkloadThatAnotherMadeIsWaitedForAndNeitherWrittenNorDeleted) {
  cluster.queue->prebuilt = true;
  cluster.Live(60);
  EXPECT_THAT(cluster.done, IsEmpty());
  EXPECT_EQ(Reason(ConditionType::kAdmitted), "Queued");
  // MultiKueue copies it, and it asks for other pods than this operator would.
  cluster.queue->workload = ObservedWorkload{.uid = "u", .outdated = true, .pods = {{"spot", 3}}};
  cluster.Live(60);
  EXPECT_THAT(cluster.done, IsEmpty());
  Admit();
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_THAT(cluster.Workers(), SizeIs(3)) << "what was admitted";
  EXPECT_TRUE(workload().pods_ready);
  cluster.spec().suspend = true;
  cluster.Live(120);
  EXPECT_THAT(cluster.pods, IsEmpty());
  ASSERT_TRUE(cluster.queue->workload);
  EXPECT_EQ(workload().uid, "u");
}

TEST_F(AdmissionTest, AJobThatRunsInAnotherClusterHasItsWorkloadHereAndNothingElse) {
  cluster.spec().managedBy = names::kMultiKueue;
  cluster.Live(60);
  EXPECT_THAT(cluster.done, testing::ElementsAre("write workload"));
  Admit();
  cluster.Live(600);
  EXPECT_THAT(cluster.pods, IsEmpty());
  EXPECT_EQ(cluster.status(), api::SwarmJobStatus()) << "MultiKueue copies the one of there";
  EXPECT_TRUE(workload().has_quota);
  cluster.spec().suspend = true;
  cluster.Live(60);
  EXPECT_FALSE(cluster.queue->workload) << "so MultiKueue removes the job there";
  cluster.spec().suspend = false;
  cluster.Live(60);
  EXPECT_TRUE(cluster.queue->workload);
}

TEST_F(AdmissionTest, AJobOfAnotherControllerIsLeftAlone) {
  cluster.spec().managedBy = "example.com/other";
  cluster.Live(60);
  EXPECT_THAT(cluster.done, IsEmpty());
  EXPECT_EQ(cluster.status(), api::SwarmJobStatus());
}

TEST_F(AdmissionTest, AnAdmissionThatIsTakenBackStopsTheJob) {
  Train();
  workload().admitted = false;  // a check of the queue no longer agrees
  workload().words = "The workload has not all checks ready";
  cluster.Live(60);
  EXPECT_THAT(cluster.pods, IsEmpty());
  EXPECT_TRUE(workload().has_quota) << "an eviction would ask for it";
  EXPECT_THAT(Words(ConditionType::kAdmitted), HasSubstr("checks ready"));
}

TEST_F(AdmissionTest, AWorkloadThatSomebodyDeletedStopsTheJobWhichThenAsksAgain) {
  Train();
  cluster.queue->workload.reset();
  cluster.Act(cluster.leader);
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspending);
  EXPECT_FALSE(cluster.queue->workload) << "the quota of others is in use";
  cluster.Live(60);
  EXPECT_THAT(cluster.pods, IsEmpty());
  ASSERT_TRUE(cluster.queue->workload);
  EXPECT_FALSE(workload().has_quota);
}

TEST_F(AdmissionTest, TheQueueIsToldOnceHowTheJobEnded) {
  Train();
  cluster.End("job-trainer-1", 0, "Completed");
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kSucceeded);
  EXPECT_EQ(std::ranges::count(cluster.done, "tell: succeeded"), 1);
}

TEST_F(AdmissionTest, AFailedJobTellsItsQueueToo) {
  cluster.Live(30);
  Admit();
  cluster.Act(cluster.leader);
  cluster.RunPods();
  cluster.End("job-trainer-1", 2);
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kFailed);
  EXPECT_EQ(std::ranges::count(cluster.done, "tell: failed"), 1);
}

TEST_F(AdmissionTest, ASuspendedJobAsksForNoQuotaAndAsksAnewWhenItIsResumed) {
  Train();
  cluster.spec().suspend = true;
  cluster.Act(cluster.leader);
  EXPECT_TRUE(cluster.queue->workload) << "pods use it";
  cluster.Live(60);
  EXPECT_FALSE(cluster.queue->workload);
  EXPECT_EQ(Reason(ConditionType::kSuspended), "Suspended");
  EXPECT_EQ(Reason(ConditionType::kAdmitted), "Suspended");
  cluster.spec().suspend = false;
  cluster.Live(60);
  EXPECT_EQ(Reason(ConditionType::kAdmitted), "Queued");
  EXPECT_THAT(cluster.pods, IsEmpty());
  Admit();
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
}

TEST_F(AdmissionTest, AnAutoscalerMovesAJobWithinItsQuotaAndIsToldWhereThatEnds) {
  Train();
  cluster.spec().workers.replicas = 3;
  cluster.Live(120);
  EXPECT_THAT(cluster.Workers(), SizeIs(3));
  cluster.spec().workers.replicas = 6;
  cluster.Live(120);
  EXPECT_THAT(cluster.Workers(), SizeIs(4)) << "as many as were admitted";
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning) << "it is not stopped for that";
  EXPECT_THAT(Words(ConditionType::kAdmitted), HasSubstr("the manifest asks for 6"));
  EXPECT_EQ(std::ranges::count(cluster.done, "write workload"), 1);
}

TEST_F(AdmissionTest, AJobThatWaitsKeepsItsPlaceWhenItAsksForAnotherNumber) {
  cluster.Live(30);
  cluster.spec().workers.replicas = 6;
  cluster.Live(30);
  EXPECT_THAT(workload().pods, UnorderedElementsAre(Pair("spot", 6u)));
  EXPECT_FALSE(cluster.Did("delete workload"));
}

TEST_F(AdmissionTest, PodsOfAnotherShapeNeedAnotherAdmission) {
  Train();
  workload().outdated = true;
  cluster.Live(60);
  EXPECT_THAT(cluster.pods, IsEmpty());
  EXPECT_TRUE(cluster.Did("delete workload"));
  EXPECT_FALSE(workload().outdated);
  EXPECT_FALSE(workload().has_quota);
}

TEST_F(AdmissionTest, AJobWhoseQueueLabelIsTakenAwayRunsAndLeavesNothingBehind) {
  cluster.Live(30);
  cluster.queue->name.clear();
  cluster.Live(60);
  EXPECT_FALSE(cluster.queue->workload);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_EQ(api::FindCondition(cluster.status(), ConditionType::kAdmitted), nullptr);
}

TEST_F(AdmissionTest, WithoutKueueAJobThatWantsAQueueIsToldSoAndMakesNothing) {
  cluster.queue->unreadable = "the cluster does not serve Workloads";
  cluster.Live(60);
  EXPECT_THAT(cluster.done, IsEmpty());
  EXPECT_EQ(Reason(ConditionType::kAdmitted), "QueueUnavailable");
  EXPECT_THAT(Words(ConditionType::kAdmitted), HasSubstr("does not serve Workloads"));
  EXPECT_TRUE(Decide(cluster.Observe(cluster.leader)).look_again) << "Kueue may be installed";
}

TEST_F(AdmissionTest, AJobThatTrainsIsNotStoppedForWhatTheOperatorCannotSee) {
  Train();
  cluster.queue = ObservedQueue{.name = "night", .unreadable = "no right to read Workloads"};
  cluster.Live(120);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
  EXPECT_EQ(Reason(ConditionType::kAdmitted), "QueueUnavailable");
}

TEST_F(AdmissionTest, AWorkloadThatIsRefusedIsToldAndTriedAgain) {
  cluster.queue->refusal = "WorkloadPriorityClass urgent does not exist";
  cluster.Live(60);
  EXPECT_THAT(Words(ConditionType::kAdmitted), HasSubstr("urgent does not exist"));
  EXPECT_THAT(cluster.done, Each(std::string("write workload")));
  cluster.queue->refusal.clear();
  cluster.Live(60);
  EXPECT_EQ(Reason(ConditionType::kAdmitted), "Queued");
}

TEST_F(AdmissionTest, PoolsAreAskedForInTheirOrderUpToTheirLimits) {
  api::Spec spec = cluster.spec();
  spec.workers.pools = {{.name = "good", .maxReplicas = 5}, {.name = "cheap"}, {.name = "spare"}};
  spec.workers.replicas = 12;
  EXPECT_THAT(AskedPods(spec, {{"cheap", 4}}),
              UnorderedElementsAre(Pair("good", 5u), Pair("cheap", 2u)));
}

TEST_F(AdmissionTest, AQueueGivesNoQuotaForMachinesOfOtherClusters) {
  cluster.spec().workers.pools.push_back({.name = "abroad", .cluster = "west"});
  cluster.spec().workers.pools[0].maxReplicas = 3;
  cluster.clusters["west"] = {.reachable = true, .since = cluster.now};
  cluster.free_slots["abroad"] = 10;
  cluster.Live(30);
  EXPECT_THAT(workload().pods, UnorderedElementsAre(Pair("spot", 3u)));
  Admit();
  cluster.Live(60);
  EXPECT_THAT(cluster.In("spot"), SizeIs(3));
  EXPECT_THAT(cluster.In("abroad"), SizeIs(1));
}

}  // namespace
}  // namespace swarm::plan
