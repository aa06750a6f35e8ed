// Stories of a whole job: its trainer, its suspension, its end, and which operator may act on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/format/enum_names.h"
#include "operator/plan/testing/fake_cluster.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

/// Admitted is of jobs in a queue alone, and ClustersConnected of those with pools in other
/// clusters.
constexpr std::size_t kConditionsOfAll = EnumNames<api::ConditionType>::kNames.size() - 2;

TEST(TrainerTest, ATrainerWhoseNodeIsLostIsFollowedAtOnceByTheNextTerm) {
  FakeCluster cluster;
  cluster.Live(60);
  cluster.LoseNodeOf("job-trainer-1");
  const Plan plan = cluster.Act(cluster.leader);
  EXPECT_EQ(plan.write, WriteStatus::kFirst);
  EXPECT_EQ(cluster.status().trainer.term, 2u);
  EXPECT_TRUE(cluster.pods.contains("job-trainer-2"));
  EXPECT_EQ(cluster.status().preemptions, 1u);
  EXPECT_EQ(cluster.status().state, api::JobState::kRecovering);
  cluster.Live(60);
  EXPECT_FALSE(cluster.pods.contains("job-trainer-1"));
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_EQ(cluster.status().preemptions, 1u);
  EXPECT_THAT(cluster.Workers(), SizeIs(4)) << "they are as they were";
  EXPECT_EQ(cluster.status().nextWorkerOrdinal, 4u);
}

TEST(TrainerTest, ATerminatingTrainerIsNotWaitedFor) {
  FakeCluster cluster;
  cluster.Live(60);
  cluster.DeletePodByAnotherClient("job-trainer-1");
  cluster.Act(cluster.leader);
  EXPECT_TRUE(cluster.pods.contains("job-trainer-1"));
  EXPECT_TRUE(cluster.pods.contains("job-trainer-2"));
}

TEST(ReplicasTest, ANumberThatTheManifestLeavesOpenIsWrittenOnce) {
  FakeCluster cluster;
  cluster.job.replicas_open = true;
  cluster.Live(60);
  EXPECT_EQ(std::ranges::count(cluster.done, "write replicas 4"), 1);
}

TEST(ReplicasTest, BeforeTheFirstTrainerThePlannersNumberIsNotWritten) {
  for (const bool chosen : {false, true}) {
    FakeCluster cluster;
    cluster.job.replicas_open = true;
    if (chosen) cluster.job.choice.emplace();
    cluster.spec().suspend = true;
    cluster.Live(60);
    EXPECT_EQ(std::ranges::count(cluster.done, "write replicas 4"), chosen ? 0 : 1);
  }
}

TEST(TrainerTest, ANewTermIsAboveEveryOneThatTheWorkersHaveHeardOf) {
  FakeCluster cluster;
  cluster.Live(60);
  Observed seen = cluster.Observe(cluster.leader);
  seen.trainer->status.term = protocol::Term(7);  // the status was restored from a backup
  cluster.LoseNodeOf("job-trainer-1");
  seen.nodes = cluster.nodes;
  EXPECT_EQ(Decide(seen).status.trainer.term, 8u);
  // No JSON number holds the next one.
  seen.trainer->status.term = protocol::Term(~std::uint64_t{0});
  EXPECT_EQ(Decide(seen).status.trainer.term, 2u);
}

TEST(TrainerTest, TheConfigIsWrittenAnewForEachTerm) {
  FakeCluster cluster;
  cluster.Live(60);
  cluster.End("job-trainer-1", 1);
  const Plan plan = Decide(cluster.Observe(cluster.leader));
  EXPECT_THAT(plan.actions, Contains(Action(ApplyChild{Child::kConfig})));
  EXPECT_EQ(plan.status.failures, 1u);
}

TEST(TrainerTest, ATrainerBeginsWithAsManyWorkersAsTheJobNeedsAtLeast) {
  FakeCluster cluster(6, 2);
  cluster.spec().workers.minReplicas = 3;
  const Plan plan = Decide(cluster.Observe(cluster.leader));
  EXPECT_THAT(plan.actions, Contains(Action(CreateTrainer{1, std::vector<std::uint64_t>{2, 1}})));
  EXPECT_EQ(plan.status.plan.layout, (std::vector<std::uint64_t>{3, 3}));
}

TEST(TrainerTest, ATrainerThatFailsAgainAndAgainIsCountedOnceEachTime) {
  FakeCluster cluster;
  cluster.spec().failurePolicy = {.maxFailures = 3, .windowSeconds = 3600};
  cluster.Live(60);
  for (int i = 0; i < 300 && cluster.status().state != api::JobState::kFailed; ++i) {
    const std::string name = "job-trainer-" + std::to_string(cluster.status().trainer.term);
    if (cluster.pods.contains(name) && !cluster.pods.at(name).end) cluster.End(name, 1);
    cluster.Live(5);
  }
  EXPECT_EQ(cluster.status().state, api::JobState::kFailed);
  EXPECT_EQ(cluster.status().failures, 4u);
  EXPECT_EQ(cluster.status().trainer.term, 4u);
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(TrainerTest, ABadConfigurationFailsTheJobWithTheTrainersOwnWords) {
  FakeCluster cluster;
  cluster.Act(cluster.leader);
  cluster.RunPods();
  cluster.End("job-trainer-1", 2, "Error", "model.config: hidden_size is 0");
  cluster.Live(30);
  EXPECT_EQ(cluster.status().state, api::JobState::kFailed);
  EXPECT_THAT(api::FindCondition(cluster.status(), api::ConditionType::kFailed)->message,
              HasSubstr("hidden_size is 0"));
  EXPECT_TRUE(cluster.pods.contains("job-trainer-1")) << "its log stays";
}

TEST(TrainerTest, OnceATrainerHasTrainedABadConfigurationIsAFailureLikeOthers) {
  FakeCluster cluster;
  cluster.spec().failurePolicy = {.maxFailures = 2, .windowSeconds = 3600};
  cluster.Live(60);
  EXPECT_TRUE(cluster.status().hasRun.trainer);
  cluster.LoseNodeOf("job-trainer-1");  // so that no pod of a trainer tells of the past
  cluster.Act(cluster.leader);
  cluster.pods.erase("job-trainer-1");
  cluster.RunPods();
  cluster.End("job-trainer-2", 2, "Error", "s3://acme/data: no such file");
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_EQ(cluster.status().failures, 1u);
  EXPECT_TRUE(cluster.Happened("TrainerFailed"));
  for (const char* trainer : {"job-trainer-3", "job-trainer-4"}) {
    cluster.End(trainer, 2, "Error", "s3://acme/data: no such file");
    cluster.Live(60);
  }
  const auto* failed = api::FindCondition(cluster.status(), api::ConditionType::kFailed);
  EXPECT_EQ(failed->reason, "TooManyFailures");
  EXPECT_THAT(failed->message, HasSubstr("no such file"));
}

constexpr const char* kNoNodeFits =
    "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";

TEST(TrainerTest, ATrainerThatFitsNowhereIsToldInTheSchedulersWords) {
  FakeCluster cluster;
  cluster.trainer_fits_nowhere = kNoNodeFits;
  cluster.Live(30);
  const api::Condition ready = cluster.ConditionOf(api::ConditionType::kReady);
  EXPECT_EQ(ready.status, api::ConditionStatus::kFalse);
  EXPECT_EQ(ready.reason, "TrainerUnschedulable");
  EXPECT_THAT(ready.message, HasSubstr("Unschedulable: 0/3 nodes are available"));
  EXPECT_THAT(ready.message, HasSubstr("trainer.allowSpot"));
  EXPECT_THAT(cluster.Workers(), SizeIs(4)) << "an autoscaler may bring a node";
}

TEST(TrainerTest, WorkersAreNotHeldForATrainerThatFitsNowhere) {
  FakeCluster cluster;
  cluster.trainer_fits_nowhere = kNoNodeFits;
  cluster.Live(890);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
  cluster.Live(120);
  EXPECT_THAT(cluster.Workers(), IsEmpty());
  EXPECT_EQ(cluster.ConditionOf(api::ConditionType::kCapacityAvailable).reason,
            "TrainerUnschedulable");
  EXPECT_EQ(std::ranges::count(cluster.events, api::Reason::kTrainerUnschedulable, &Event::reason),
            1);
  const std::uint64_t made = cluster.status().nextWorkerOrdinal;
  const api::SwarmJobStatus before = cluster.status();
  cluster.Live(7200);
  EXPECT_EQ(cluster.status(), before) << "nothing is written at rest";
  EXPECT_EQ(cluster.status().nextWorkerOrdinal, made) << "no worker is made for nothing";
  EXPECT_TRUE(cluster.pods.contains("job-trainer-1")) << "it waits for a node that fits";

  cluster.trainer_fits_nowhere.clear();
  cluster.Live(120);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
  EXPECT_EQ(cluster.ConditionOf(api::ConditionType::kCapacityAvailable).reason, "Available");
  EXPECT_EQ(cluster.status().unexplained + cluster.status().failures, 0u)
      << "the operator itself took the workers away";
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(TrainerTest, AChangedManifestReplacesATrainerThatFitsNowhere) {
  FakeCluster cluster;
  cluster.trainer_fits_nowhere = kNoNodeFits;
  cluster.Live(1200);
  cluster.Act(cluster.leader);
  EXPECT_EQ(cluster.status().trainer.term, 1u) << "the same pod would fit no better";
  cluster.spec().trainer.allowSpot = true;
  cluster.job.generation = 2;
  cluster.job.trainer_part = "allows spot nodes";
  cluster.trainer_fits_nowhere.clear();
  cluster.Act(cluster.leader);
  EXPECT_EQ(cluster.status().trainer.term, 2u);
  EXPECT_TRUE(cluster.Happened("TrainerReplaced"));
  cluster.Live(120);
  EXPECT_FALSE(cluster.pods.contains("job-trainer-1"));
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_EQ(cluster.status().failures + cluster.status().unexplained, 0u);
}

TEST(TrainerTest, AChangeOfOtherPartsOfTheManifestLeavesATrainerThatFitsNowhere) {
  FakeCluster cluster;
  cluster.trainer_fits_nowhere = kNoNodeFits;
  cluster.Live(1200);
  EXPECT_THAT(cluster.Workers(), IsEmpty());
  cluster.done.clear();
  cluster.spec().workers.replicas = 6;
  cluster.job.generation = 2;
  cluster.Live(600);
  EXPECT_EQ(cluster.status().trainer.term, 1u);
  EXPECT_THAT(cluster.Workers(), IsEmpty()) << "they are still not held for it";
  EXPECT_EQ(std::ranges::count(cluster.done, "apply"), 1)
      << "it reads the manifest of today, once it has a node";
  cluster.trainer_fits_nowhere.clear();
  cluster.Live(120);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_THAT(cluster.Workers(), SizeIs(6));
}

TEST(TrainerTest, AChangedManifestLeavesATrainerThatHasANode) {
  FakeCluster cluster;
  cluster.Live(60);
  cluster.job.generation = 2;
  cluster.Live(60);
  EXPECT_EQ(cluster.status().trainer.term, 1u);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
}

TEST(TrainerTest, ATrainerIsReplacedThoughTheRegistryIsAwayForHours) {
  FakeCluster cluster;
  cluster.Live(60);
  cluster.registry_answers = "denied: the token service does not answer";
  cluster.LoseNodeOf("job-trainer-1");
  cluster.Act(cluster.leader);
  cluster.pods.erase("job-trainer-1");
  cluster.Live(120);
  const auto* ready = api::FindCondition(cluster.status(), api::ConditionType::kReady);
  EXPECT_EQ(ready->status, api::ConditionStatus::kFalse);
  EXPECT_THAT(ready->message, HasSubstr("image cannot be pulled"));
  EXPECT_EQ(cluster.status().failures, 0u) << "the kubelet tries again by itself";
  cluster.Live(3 * 3600);
  EXPECT_EQ(cluster.status().state, api::JobState::kRecovering);
  EXPECT_GT(cluster.status().failures, 10u) << "another node may have the image";
  EXPECT_TRUE(cluster.Happened("TrainerFailed"));
  cluster.registry_answers.clear();
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(TrainerTest, ATrainerThatOnlyWorkersHearHasRunToo) {
  FakeCluster cluster;
  cluster.trainer_speaks = false;
  cluster.Live(60);
  EXPECT_TRUE(cluster.status().hasRun.trainer);
  cluster.registry_answers = "denied: the token service does not answer";
  cluster.LoseNodeOf("job-trainer-1");
  cluster.Act(cluster.leader);
  cluster.pods.erase("job-trainer-1");
  cluster.Live(300);
  EXPECT_FALSE(api::IsTrue(cluster.status(), api::ConditionType::kFailed));
}

TEST(TrainerTest, AnOperatorThatBeginsAnewKnowsThatTheJobHasRun) {
  FakeCluster cluster;
  cluster.Live(60);
  cluster.registry_answers = "dial tcp: i/o timeout";
  cluster.pods.clear();
  cluster.nodes.clear();
  cluster.leader = {.term = 2};
  cluster.Live(3600);
  EXPECT_NE(cluster.status().state, api::JobState::kFailed);
  cluster.registry_answers.clear();
  cluster.Live(120);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
}

TEST(TrainerTest, AJobWhoseImageWasNeverThereFails) {
  FakeCluster cluster;
  cluster.registry_answers = "acme/nothing:1: not found";
  cluster.Live(120);
  EXPECT_EQ(cluster.status().state, api::JobState::kFailed);
  EXPECT_EQ(api::FindCondition(cluster.status(), api::ConditionType::kFailed)->reason,
            "ImageNotAvailable");
}

TEST(JobTest, ATrainerThatHasTrainedToTheEndEndsTheJobAndItsWorkersGo) {
  FakeCluster cluster;
  cluster.spec().ttlSecondsAfterFinished = 100;
  cluster.Live(60);
  cluster.End("job-trainer-1", 0, "Completed");
  cluster.Live(30);
  EXPECT_EQ(cluster.status().state, api::JobState::kSucceeded);
  EXPECT_EQ(cluster.status().step, 1000u);
  EXPECT_THAT(cluster.Workers(), IsEmpty());
  EXPECT_EQ(cluster.status().unexplained, 0u);
  EXPECT_FALSE(cluster.job.deleted);
  cluster.Live(120);
  EXPECT_TRUE(cluster.job.deleted);
}

TEST(JobTest, NobodyTakesThePlaceOfWorkersThatTheTrainerDismissesAtTheEnd) {
  FakeCluster cluster;
  cluster.Live(60);
  cluster.trainer_speaks = false;
  for (const std::string& name : cluster.Workers()) cluster.End(name, 0, "Completed");
  cluster.Live(10);
  EXPECT_EQ(cluster.status().nextWorkerOrdinal, 4u);
  cluster.End("job-trainer-1", 0, "Completed");
  cluster.Live(10);
  EXPECT_EQ(cluster.status().state, api::JobState::kSucceeded);
  EXPECT_EQ(cluster.status().nextWorkerOrdinal, 4u);
  EXPECT_THAT(cluster.Workers(), IsEmpty());
}

TEST(JobTest, AWorkerThatSomebodyHasDrainedIsReplacedAtOnce) {
  FakeCluster cluster;
  cluster.Live(60);
  cluster.End("job-w1", 0, "Completed");
  cluster.Act(cluster.leader);
  EXPECT_TRUE(cluster.Did("create job-w4 in spot"));
  EXPECT_EQ(cluster.status().unexplained, 0u);
}

TEST(JobTest, WhatThePlannerChoseIsWrittenBeforeAnythingIsMadeWithIt) {
  FakeCluster cluster;
  cluster.job.choice = api::PlanChoice{.generation = 1,
                                       .stages = 2,
                                       .codec = api::BoundaryCodec::kBF16,
                                       .tokensPerSecond = 1234.4,
                                       .limitedBy = "the lines of stage 0"};
  const Plan plan = cluster.Act(cluster.leader);
  EXPECT_EQ(plan.write, WriteStatus::kFirst);
  EXPECT_EQ(plan.status.plan.choice, cluster.job.choice);
  const auto told = [](const Event& event) { return event.reason == api::Reason::kPlanned; };
  const auto event = std::find_if(cluster.events.begin(), cluster.events.end(), told);
  ASSERT_NE(event, cluster.events.end());
  EXPECT_EQ(event->message,
            "stages 2, codec BF16: about 1234 tokens/s, limited by the lines of stage 0");
  cluster.Live(60);
  EXPECT_EQ(std::count_if(cluster.events.begin(), cluster.events.end(), told), 1);
}

TEST(JobTest, SuspensionWaitsForTheTrainersCheckpointAndThenLetsAllGo) {
  FakeCluster cluster;
  cluster.Live(60);
  cluster.spec().suspend = true;
  cluster.Act(cluster.leader);
  EXPECT_TRUE(cluster.pods.at("job-trainer-1").deleted);
  EXPECT_THAT(cluster.Workers(), SizeIs(4)) << "the step needs them";
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspending);
  cluster.Act(cluster.leader);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspended);
  EXPECT_THAT(cluster.pods, IsEmpty());
  cluster.spec().suspend = false;
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_EQ(cluster.status().trainer.term, 2u);
  const api::SwarmJobStatus& status = cluster.status();
  EXPECT_EQ(status.preemptions + status.failures + status.unexplained, 0u);
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(JobTest, ATrainerThatDoesNotComeToItsEndDoesNotKeepAJobFromBeingSuspended) {
  FakeCluster cluster;
  cluster.Live(60);
  cluster.spec().suspend = true;
  cluster.Act(cluster.leader);
  for (int i = 0; i < 20; ++i) {
    cluster.Advance(5);
    cluster.Act(cluster.leader);
  }
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspended);
}

TEST(JobTest, AJobThatIsBornSuspendedMakesNothing) {
  FakeCluster cluster;
  cluster.spec().suspend = true;
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kSuspended);
  EXPECT_THAT(cluster.done, IsEmpty());
  cluster.spec().suspend = false;
  cluster.Live(60);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
}

TEST(JobTest, AJobKeepsItsImageUntilItIsResumedOrItsAnnotationAsksForAnother) {
  FakeCluster cluster;
  cluster.Live(60);
  EXPECT_EQ(cluster.status().image.name, "swarm-worker:1");
  cluster.image.name = "swarm-worker:2";  // the operator is upgraded
  cluster.LoseNodeOf("job-w0");
  cluster.LoseNodeOf("job-trainer-1");
  cluster.Live(120);
  EXPECT_EQ(cluster.status().state, api::JobState::kRunning);
  EXPECT_EQ(cluster.status().image.name, "swarm-worker:1") << "its new pods join old ones";
  EXPECT_FALSE(cluster.Happened("ImageChanged"));
  cluster.image.update = "today";
  cluster.Live(60);
  EXPECT_EQ(cluster.status().image, cluster.image);
  EXPECT_TRUE(cluster.Happened("ImageChanged"));
  cluster.image.name = "swarm-worker:3";
  cluster.Live(60);
  EXPECT_EQ(cluster.status().image.name, "swarm-worker:2") << "an annotation asks once";
  cluster.image.update.clear();
  cluster.Live(60);
  EXPECT_EQ(cluster.status().image.name, "swarm-worker:2") << "nothing is asked for";
  cluster.spec().suspend = true;
  cluster.Live(60);
  EXPECT_EQ(cluster.status().image.name, "swarm-worker:2");
  cluster.spec().suspend = false;
  cluster.Live(60);
  EXPECT_EQ(cluster.status().image.name, "swarm-worker:3");
  EXPECT_THAT(cluster.violations, IsEmpty());
}

TEST(JobTest, AJobThatAnotherControllerManagesIsLeftAlone) {
  FakeCluster cluster;
  cluster.spec().managedBy = "kueue.x-k8s.io/multikueue";
  const Plan plan = cluster.Act(cluster.leader);
  EXPECT_EQ(plan.write, WriteStatus::kNo);
  EXPECT_THAT(plan.actions, IsEmpty());
}

TEST(JobTest, AManifestThatCannotBeRunIsRefusedWithItsReasonsAndNothingIsTouched) {
  FakeCluster cluster;
  cluster.job.refused = {"spec.pipeline.stages is 9: the model has 8 layers"};
  cluster.job.job.reset();
  EXPECT_EQ(cluster.Act(cluster.leader).write, WriteStatus::kLast);
  EXPECT_EQ(cluster.status().state, api::JobState::kRejected);
  EXPECT_EQ(cluster.status().conditions.size(), kConditionsOfAll);
  EXPECT_THAT(api::FindCondition(cluster.status(), api::ConditionType::kAccepted)->message,
              HasSubstr("8 layers"));
  EXPECT_EQ(cluster.Act(cluster.leader).write, WriteStatus::kNo);
}

TEST(JobTest, ConditionsAreThereFromTheFirstVisitAndChangeTheirTimeOnlyWithTheirStatus) {
  FakeCluster cluster;
  cluster.Act(cluster.leader);
  EXPECT_EQ(cluster.status().conditions.size(), kConditionsOfAll);
  const WallTime first =
      api::FindCondition(cluster.status(), api::ConditionType::kReady)->lastTransitionTime;
  cluster.Advance(20);
  cluster.Act(cluster.leader);
  EXPECT_EQ(api::FindCondition(cluster.status(), api::ConditionType::kReady)->lastTransitionTime,
            first);
  cluster.Live(60);
  EXPECT_GT(api::FindCondition(cluster.status(), api::ConditionType::kReady)->lastTransitionTime,
            first);
  for (const api::Condition& condition : cluster.status().conditions) {
    EXPECT_FALSE(condition.reason.empty()) << condition.type;
  }
}

TEST(JobTest, ProgressAloneIsWrittenOnceAMinute) {
  FakeCluster cluster;
  cluster.Live(120);
  int writes = 0;
  for (int i = 0; i < 60; ++i) {
    cluster.Advance(5);
    Observed seen = cluster.Observe(cluster.leader);
    seen.trainer->status.step = protocol::Step(100 + static_cast<std::uint64_t>(i));
    const Plan plan = cluster.Act(cluster.leader, seen);
    writes += plan.write != WriteStatus::kNo ? 1 : 0;
  }
  EXPECT_GE(writes, 4);
  EXPECT_LE(writes, 6);
}

TEST(OperatorTest, WhoDiesBetweenReservingAndCreatingLeavesNoNameUsedTwice) {
  for (std::size_t stop = 0; stop < 14; ++stop) {
    FakeCluster cluster;
    cluster.Act(cluster.leader, {}, stop);
    cluster.leader = {.term = 2};  // another process
    cluster.Live(120);
    EXPECT_THAT(cluster.Workers(), SizeIs(4)) << stop;
    EXPECT_EQ(cluster.status().state, api::JobState::kRunning) << stop;
    EXPECT_THAT(cluster.violations, IsEmpty()) << stop;
  }
}

TEST(OperatorTest, OneThatKnowsAnOldStatusTouchesNothing) {
  FakeCluster cluster;
  const Observed old = cluster.Observe(cluster.leader);
  cluster.Live(60);
  Observed mixed = cluster.Observe(cluster.leader);
  mixed.job.status = old.job.status;  // its pods are newer than its status
  const Plan plan = Decide(mixed);
  EXPECT_EQ(plan.write, WriteStatus::kNo);
  EXPECT_THAT(plan.actions, IsEmpty());
}

TEST(OperatorTest, WhatVanishedWhileNobodyWatchedIsReplacedAndNotCharged) {
  FakeCluster cluster;
  cluster.spec().failurePolicy.maxFailures = 0;
  cluster.Live(60);
  cluster.pods.erase("job-w2");
  cluster.leader = {.term = 2};
  cluster.Act(cluster.leader);
  EXPECT_EQ(cluster.status().unexplained, 0u) << "it may be that the watch shows it yet";
  cluster.Live(60);
  EXPECT_EQ(cluster.status().unexplained, 1u);
  EXPECT_THAT(cluster.Workers(), SizeIs(4));
}

TEST(AssignmentTest, AStageThatHasFarTooFewGetsAWorkerOfAnother) {
  FakeCluster cluster(6, 2);
  cluster.Live(180);
  Observed seen = cluster.Observe(cluster.leader);
  auto& stages = seen.trainer->status.stages;
  auto& from = stages[1].workers;
  while (from.size() > 1) {
    stages[0].workers.push_back(from.back());
    from.pop_back();
  }
  const Plan plan = Decide(seen);
  ASSERT_THAT(plan.actions, SizeIs(1));
  const auto& direct = std::get<DirectTrainer>(plan.actions[0]);
  ASSERT_THAT(direct.moves, SizeIs(1));
  EXPECT_EQ(direct.moves[0].to, protocol::StageIndex(1));

  seen.trainer->status.balance.moving = direct.moves;
  EXPECT_THAT(Decide(seen).actions, IsEmpty()) << "one at a time";

  seen.trainer->status.balance.moving.clear();
  seen.moved = seen.now - std::chrono::seconds(60);
  EXPECT_THAT(Decide(seen).actions, IsEmpty()) << "the rates still tell of the last one";
  seen.moved = seen.now - std::chrono::seconds(120);
  EXPECT_THAT(Decide(seen).actions, SizeIs(1));
}

TEST(AssignmentTest, AnEmptiedStageIsNotKeptWaiting) {
  FakeCluster cluster(6, 2);
  cluster.Live(180);
  Observed seen = cluster.Observe(cluster.leader);
  seen.moved = seen.now - std::chrono::seconds(10);
  auto& stages = seen.trainer->status.stages;
  for (auto& worker : stages[1].workers) stages[0].workers.push_back(worker);
  stages[1].workers.clear();
  const Plan plan = Decide(seen);
  ASSERT_THAT(plan.actions, SizeIs(1));
  EXPECT_EQ(std::get<DirectTrainer>(plan.actions[0]).moves[0].to, protocol::StageIndex(1));
}

}  // namespace
}  // namespace swarm::plan
