// Stories of workers that vanish, get a notice, fail or wait, and what becomes of their job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/pods/pod_health.h"
#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

bool IsQuiet(const Plan& plan) {
  return plan.write == WriteStatus::kNo && plan.actions.empty() && plan.events.empty();
}

TEST(WorkersTest, AJobGetsItsPodsAndThenNothingMoreIsDone) {
  FakeCluster cluster(4);
  ASSERT_TRUE(cluster.Settle());
  EXPECT_THAT(cluster.Workers(), ElementsAre("job-w0", "job-w1", "job-w2", "job-w3"));
  EXPECT_TRUE(cluster.pods.contains("job-trainer-1"));
  EXPECT_THAT(cluster.children, SizeIs(std::size(kChildren)));
  cluster.Advance(10);
  cluster.Act(cluster.leader);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_EQ(cluster.status().readyReplicas, 4u);
  for (int i = 0; i < 100; ++i) {
    cluster.Advance(7);
    EXPECT_TRUE(IsQuiet(cluster.Act(cluster.leader)));
  }
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(WorkersTest, ANumberIsReservedBeforeThePodIsMade) {
  FakeCluster cluster(2);
  const Plan plan = Decide(cluster.Observe(cluster.leader));
  EXPECT_EQ(plan.write, WriteStatus::kFirst);
  EXPECT_EQ(plan.status.nextWorkerOrdinal, 2u);
  EXPECT_THAT(plan.status.openWorkers, ElementsAre(0, 1));
  EXPECT_EQ(plan.status.trainer.term, 1u);
}

TEST(WorkersTest, AWorkerWhoseNodeVanishesIsReplacedUnderANewNameAndNotCharged) {
  FakeCluster cluster(4);
  cluster.spec().failurePolicy.maxFailures = 0;
  ASSERT_TRUE(cluster.Settle());
  cluster.Advance(60);
  cluster.LoseNodeOf("job-w1");
  ASSERT_TRUE(cluster.Settle());
  EXPECT_THAT(cluster.Workers(), ElementsAre("job-w0", "job-w2", "job-w3", "job-w4"));
  EXPECT_EQ(cluster.status().preemptions, 1u);
  EXPECT_EQ(cluster.status().failures, 0u);
  EXPECT_TRUE(cluster.Happened("WorkerPreempted"));
}

TEST(WorkersTest, ANoticeDrainsAtOnceAndTheReplacementDoesNotWaitForTheEnd) {
  FakeCluster cluster(4);
  ASSERT_TRUE(cluster.Settle());
  cluster.Advance(60);
  cluster.Taint("job-w2", "aws-node-termination-handler/spot-itn");
  const Plan plan = cluster.Act(cluster.leader);
  EXPECT_TRUE(cluster.Did("delete job-w2"));
  EXPECT_TRUE(cluster.Did("create job-w4 in spot"));
  EXPECT_TRUE(cluster.pods.at("job-w2").deleted);
  EXPECT_EQ(plan.status.preemptions, 1u);
  ASSERT_TRUE(cluster.Settle());
  EXPECT_EQ(cluster.status().preemptions, 1u);
}

TEST(WorkersTest, ASilentWorkerIsReplacedAtOnceAndJudgedWhenKubernetesKnowsMore) {
  FakeCluster cluster(4);
  ASSERT_TRUE(cluster.Settle());
  cluster.Advance(60);
  cluster.not_there.insert("job-w0");
  cluster.Act(cluster.leader);
  EXPECT_TRUE(cluster.Did("create job-w4 in spot"));
  EXPECT_EQ(cluster.status().preemptions, 0u);
  EXPECT_THAT(cluster.status().openWorkers, Contains(0));
  cluster.Advance(40);
  cluster.nodes.at("node-of-job-w0").conditions[0].status = "Unknown";
  ASSERT_TRUE(cluster.Settle());
  EXPECT_EQ(cluster.status().preemptions, 1u);
  EXPECT_EQ(cluster.status().unexplained, 0u);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
}

TEST(WorkersTest, AnEndWithoutEvidenceIsNotCharged) {
  FakeCluster cluster(4);
  cluster.spec().failurePolicy.maxFailures = 0;
  ASSERT_TRUE(cluster.Settle());
  cluster.Advance(600);
  cluster.End("job-w0", 137);
  ASSERT_TRUE(cluster.Settle());
  EXPECT_EQ(cluster.status().unexplained, 1u);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
}

TEST(WorkersTest, FailuresBeyondTheBudgetWithinTheWindowFailTheJob) {
  FakeCluster cluster(4);
  cluster.spec().failurePolicy = {.maxFailures = 2, .windowSeconds = 600};
  cluster.Live(60);
  for (const char* pod : {"job-w0", "job-w1", "job-w2"}) {
    cluster.End(pod, 137, "OOMKilled");
    cluster.Live(300);
    if (cluster.status().state == api::JobState::kFailed) break;
  }
  EXPECT_NE(cluster.status().state, api::JobState::kFailed) << "300 s apart: never 3 in 600 s";
  cluster.End("job-w3", 1);
  cluster.Live(5);
  EXPECT_NE(cluster.status().state, api::JobState::kFailed);
  cluster.End("job-w4", 1);
  cluster.Live(5);
  EXPECT_EQ(cluster.status().state, api::JobState::kFailed);
  EXPECT_EQ(cluster.status().failures, 5u);
  const auto* failed = api::FindCondition(cluster.status(), api::ConditionType::kFailed);
  EXPECT_EQ(failed->reason, "TooManyFailures");
  EXPECT_THAT(failed->message, HasSubstr("job-w4 ended with exit code 1"));
  cluster.Live(30);
  EXPECT_THAT(cluster.Workers(), IsEmpty());
}

TEST(WorkersTest, FailuresInARowAreReplacedLessAndLessQuickly) {
  FakeCluster cluster(2);
  cluster.spec().failurePolicy.maxFailures = 100;
  cluster.Live(60);
  for (int i = 0; i < 8; ++i) {
    for (const std::string& name : cluster.Workers()) cluster.End(name, 1);
    cluster.Live(5);
  }
  EXPECT_LT(cluster.status().nextWorkerOrdinal, 12u);
  cluster.Live(600);
  EXPECT_THAT(cluster.Workers(), SizeIs(2));
}

TEST(WorkersTest, PodsThatAKubeletRejectsAreNotThrownAtItAgainAndAgain) {
  FakeCluster cluster(2);
  cluster.Live(60);
  cluster.End("job-w0", 1);
  for (int second = 0; second < 120; ++second) {
    cluster.Act(cluster.leader);
    cluster.RunPods();
    for (auto& [name, pod] : cluster.pods) {
      if (pod.role == PodRole::kTrainer || pod.number < 2 || pod.deleted) continue;
      pod.phase = PodPhase::kFailed;
      pod.reason = "UnexpectedAdmissionError";
    }
    cluster.Advance(1);
  }
  EXPECT_LT(cluster.status().nextWorkerOrdinal, 12u);
  EXPECT_EQ(cluster.status().failures, 1u) << "the operator does not know the cause";
}

TEST(WorkersTest, WhatTryingAgainCannotMendFailsTheJobAtOnce) {
  FakeCluster cluster(4);
  cluster.Act(cluster.leader);
  cluster.RunPods();
  cluster.End("job-w0", 4, "Error", "s3://acme/: 403 AccessDenied");
  for (const char* name : {"job-w1", "job-w2", "job-w3"}) cluster.pods.at(name).ready = false;
  cluster.Live(5);
  EXPECT_EQ(cluster.status().state, api::JobState::kFailed);
  const auto* failed = api::FindCondition(cluster.status(), api::ConditionType::kFailed);
  EXPECT_EQ(failed->reason, "StorageRefused");
  EXPECT_THAT(failed->message, HasSubstr("403 AccessDenied"));
}

TEST(WorkersTest, OnceAWorkerWasReadyAStorageThatRefusesIsAFailureLikeOthers) {
  FakeCluster cluster(4);
  cluster.Live(60);
  EXPECT_TRUE(cluster.status().hasRun.workers);
  cluster.End("job-w0", 4, "Error", "s3://acme/: 403 RequestTimeTooSkewed");
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_EQ(cluster.status().failures, 1u);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
}

TEST(WorkersTest, HoweverManyWaitForARegistryThatIsAwayOneFailsAfterTheOther) {
  FakeCluster cluster(40);
  cluster.Live(60);
  cluster.registry_answers = "dial tcp: connection refused";
  const std::vector<std::string> before = cluster.Workers();
  for (std::size_t i = 0; i < 30; ++i) cluster.LoseNodeOf(before[i]);
  cluster.Live(3600);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_GE(cluster.status().failures, 1u);
  EXPECT_LE(cluster.status().failures, 6u) << "one in ten minutes";
  EXPECT_EQ(cluster.status().preemptions, 30u);
  cluster.registry_answers.clear();
  cluster.Live(60);
  EXPECT_EQ(cluster.status().readyReplicas, 40u);
}

TEST(WorkersTest, AWorkerThatHasEndedByItselfStaysAWhileForItsLog) {
  FakeCluster cluster(4);
  cluster.Live(60);
  cluster.End("job-w0", 1);
  cluster.Live(60);
  EXPECT_TRUE(cluster.pods.contains("job-w0"));
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
  cluster.Live(700);
  EXPECT_FALSE(cluster.pods.contains("job-w0"));
}

TEST(WorkersTest, ScalingUpAddsAndScalingDownDrainsThroughTheTrainer) {
  FakeCluster cluster(4);
  cluster.Live(60);
  cluster.spec().workers.replicas = 6;
  cluster.Live(60);
  EXPECT_THAT(cluster.Workers(), SizeIs(6));
  cluster.spec().workers.replicas = 3;
  cluster.Live(60);
  EXPECT_THAT(cluster.Workers(), SizeIs(3));
  EXPECT_EQ(cluster.status().preemptions + cluster.status().failures + cluster.status().unexplained,
            0u);
  EXPECT_THAT(cluster.done, Contains(HasSubstr("drain ")).Times(3));
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
}

TEST(WorkersTest, ATrainerThatNamesStagesThatThereAreNotIsNotBelieved) {
  FakeCluster cluster(4);
  cluster.Live(60);
  for (const std::uint64_t stage : {std::uint64_t{2}, std::uint64_t{1'000'000'000'000}}) {
    Observed seen = cluster.Observe(cluster.leader);
    ASSERT_FALSE(seen.trainer->status.stages.empty());
    for (protocol::StageStatus& each : seen.trainer->status.stages) {
      each.stage = protocol::StageIndex(stage);
    }
    seen.job.job->spec.workers.replicas = 2;
    const Plan plan = Decide(seen);
    EXPECT_THAT(plan.status.stages, IsEmpty()) << "a status has the stages of the job";
    for (const Action& action : plan.actions) {
      const auto* direct = std::get_if<DirectTrainer>(&action);
      EXPECT_TRUE(direct == nullptr || (direct->drain.empty() && direct->moves.empty()));
    }
  }
}

TEST(WorkersTest, ScalingDownTakesThoseThatWaitFirst) {
  FakeCluster cluster(4);
  cluster.free_slots["spot"] = 3;
  cluster.Live(60);
  EXPECT_TRUE(cluster.pods.at("job-w3").node.empty());
  cluster.spec().workers.replicas = 3;
  cluster.Live(30);
  EXPECT_THAT(cluster.Workers(), ElementsAre("job-w0", "job-w1", "job-w2"));
  EXPECT_THAT(cluster.done, Not(Contains(HasSubstr("drain "))));
}

TEST(WorkersTest, FiveHundredLostAtOnceAreReplacedInAFewBites) {
  FakeCluster cluster(500, 10);
  ASSERT_TRUE(cluster.Settle());
  cluster.Advance(60);
  const std::vector<std::string> before = cluster.Workers();
  ASSERT_THAT(before, SizeIs(500));
  for (const std::string& name : before) cluster.LoseNodeOf(name);
  ASSERT_TRUE(cluster.Settle());
  EXPECT_THAT(cluster.Workers(), SizeIs(500));
  EXPECT_EQ(cluster.status().preemptions, 500u);
  EXPECT_THAT(cluster.violations, IsEmpty());
}

// ---- pools ----

class FallbackTest : public testing::Test {
 protected:
  FallbackTest() {
    cluster.spec().workers.pools = {{.name = "spot", .returnAfterSeconds = 600},
                                    {.name = "demand"}};
    cluster.free_slots = {{"spot", 2}, {"demand", 100}};
  }
  FakeCluster cluster{4};
};

TEST_F(FallbackTest, WhatOnePoolDoesNotHaveTheNextOneGives) {
  cluster.Live(295);
  EXPECT_THAT(cluster.In("demand"), IsEmpty());
  cluster.Live(30);
  EXPECT_THAT(cluster.In("demand"), SizeIs(2));
  EXPECT_THAT(cluster.In("spot"), SizeIs(3)) << "two that run, and one that waits as the probe";
  EXPECT_TRUE(cluster.Happened("PoolDry"));
  EXPECT_TRUE(api::IsTrue(cluster.status(), api::ConditionType::kCapacityAvailable));
}

TEST_F(FallbackTest, AProbeThatDoesNotGetANodeIsNotChurned) {
  cluster.Live(330);
  const std::vector<std::string> before = cluster.Workers();
  cluster.Live(7200);
  EXPECT_EQ(cluster.Workers(), before);
}

TEST_F(FallbackTest, OncePreferredCapacityReturnsWorkersGoBackToItOneAfterTheOther) {
  cluster.Live(400);
  ASSERT_THAT(cluster.In("demand"), SizeIs(2));
  cluster.free_slots["spot"] = 100;
  for (int i = 0; i < 60; ++i) {
    cluster.Live(5);
    EXPECT_GE(cluster.status().readyReplicas, 4u);
    EXPECT_LE(cluster.Workers().size(), 6u);
  }
  EXPECT_THAT(cluster.In("demand"), IsEmpty());
  EXPECT_THAT(cluster.In("spot"), SizeIs(4));
  EXPECT_TRUE(cluster.Happened("PoolReturned"));
}

TEST_F(FallbackTest, TheLastOfAStageGoesOnlyOnceSomebodyHasTakenItsPlace) {
  cluster.Live(400);
  ASSERT_THAT(cluster.In("demand"), SizeIs(2));
  const std::string last = cluster.In("demand")[0];
  cluster.free_slots["spot"] = 100;
  cluster.spec().workers.replicas = 2;
  Observed seen = cluster.Observe(cluster.leader);
  auto& stages = seen.trainer->status.stages;
  std::vector<protocol::StageStatus::Worker> all;
  for (const auto& stage : stages) {
    all.insert(all.end(), stage.workers.begin(), stage.workers.end());
  }
  stages[0].workers.clear();
  stages[1].workers.clear();
  for (const auto& worker : all) {
    stages[worker.id.value == last ? 1 : 0].workers.push_back(worker);
  }
  for (const Action& action : Decide(seen).actions) {
    const auto* direct = std::get_if<DirectTrainer>(&action);
    if (direct == nullptr) continue;
    EXPECT_THAT(direct->drain, Not(Contains(last)));
    ASSERT_THAT(direct->moves, SizeIs(1));
    EXPECT_EQ(direct->moves[0].to, protocol::StageIndex(1));
  }
}

TEST_F(FallbackTest, CapacityThatIsNowhereIsSaidAndPodsWaitOn) {
  cluster.free_slots = {{"spot", 2}, {"demand", 0}};
  cluster.Live(800);
  const auto* capacity =
      api::FindCondition(cluster.status(), api::ConditionType::kCapacityAvailable);
  EXPECT_EQ(capacity->status, api::ConditionStatus::kFalse);
  EXPECT_EQ(capacity->reason, "NoCapacity");
  const std::vector<std::string> before = cluster.Workers();
  cluster.Live(1000);
  EXPECT_EQ(cluster.Workers(), before) << "they are the autoscaler's signal";
  cluster.free_slots["demand"] = 10;
  cluster.Live(60);
  EXPECT_TRUE(api::IsTrue(cluster.status(), api::ConditionType::kCapacityAvailable));
}

TEST_F(FallbackTest, AcceleratorsAreReleasedWhenSomeStageCannotBeStaffedForLong) {
  cluster.free_slots = {{"spot", 1}, {"demand", 0}};
  cluster.Live(2400);
  EXPECT_EQ(api::FindCondition(cluster.status(), api::ConditionType::kCapacityAvailable)->reason,
            "Released");
  EXPECT_LE(cluster.Workers().size(), 1u);
  EXPECT_TRUE(cluster.Happened("Released"));
  cluster.free_slots = {{"spot", 100}, {"demand", 100}};
  cluster.Live(4000);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
}

TEST(PoolLimitTest, APoolTakesNoMoreThanItsLimit) {
  FakeCluster cluster(6);
  cluster.spec().workers.pools = {{.name = "spot", .maxReplicas = 4}, {.name = "demand"}};
  cluster.free_slots["demand"] = 100;
  cluster.Live(30);
  EXPECT_THAT(cluster.In("spot"), SizeIs(4));
  EXPECT_THAT(cluster.In("demand"), SizeIs(2));
}

TEST(GateTest, PodsThatAreHeldBackMakeNoPoolDry) {
  FakeCluster cluster(4);
  cluster.spec().workers.pools = {{.name = "spot"}, {.name = "demand"}};
  cluster.free_slots["demand"] = 100;
  cluster.Act(cluster.leader);
  for (auto& [name, pod] : cluster.pods) pod.gated = pod.role == PodRole::kWorker;
  cluster.Live(3600);
  EXPECT_THAT(cluster.In("demand"), IsEmpty());
  EXPECT_THAT(cluster.In("spot"), SizeIs(4));
}

// ---- refusals ----

TEST(RefusalTest, AQuotaHoldsCreationsBackAndIsSaid) {
  FakeCluster cluster(4);
  cluster.Live(30);
  cluster.LoseNodeOf("job-w0");
  cluster.refuses = Refusal{.code = StatusCode::kResourceExhausted, .message = "exceeded quota"};
  cluster.Live(1800);
  const auto* capacity =
      api::FindCondition(cluster.status(), api::ConditionType::kCapacityAvailable);
  EXPECT_EQ(capacity->reason, "QuotaExceeded");
  EXPECT_THAT(capacity->message, HasSubstr("exceeded quota"));
  EXPECT_LT(cluster.status().nextWorkerOrdinal, 25u) << "back-off, not a storm";
  EXPECT_EQ(cluster.status().unexplained, 0u) << "what was never made has not ended";
  cluster.refuses.reset();
  cluster.Live(600);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
  EXPECT_TRUE(api::IsTrue(cluster.status(), api::ConditionType::kCapacityAvailable));
}

TEST(RefusalTest, ANewJobWhosePodsAreRefusedIsNotAccepted) {
  FakeCluster cluster(4);
  cluster.refuses = Refusal{.code = StatusCode::kInvalidArgument, .message = "spec.foo: invalid"};
  cluster.Live(30);
  EXPECT_EQ(cluster.status().state, api::JobState::kRejected);
  EXPECT_THAT(api::FindCondition(cluster.status(), api::ConditionType::kAccepted)->message,
              HasSubstr("spec.foo: invalid"));
  EXPECT_THAT(cluster.pods, IsEmpty());
}

}  // namespace
}  // namespace swarm::plan
