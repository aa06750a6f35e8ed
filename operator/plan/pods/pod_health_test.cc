#include "operator/plan/pods/pod_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/pods/preemption.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

const WallTime kNow{seconds(1'800'000'000)};

ObservedPod RunningPod() {
  return {.name = "job-w3",
          .number = 3,
          .created = kNow - seconds(600),
          .phase = PodPhase::kRunning,
          .waiting_since = kNow - seconds(600),
          .node = "a",
          .scheduled = kNow - seconds(590)};
}

ObservedNode ReadyNode() {
  return {.uid = "uid-a",
          .created = kNow - seconds(3600),
          .taints = {},
          .conditions = {{.type = "Ready", .status = "True", .reason = "", .message = ""}}};
}

Observed Around(const ObservedPod& pod) {
  Observed observed{.now = kNow};
  observed.job.job.emplace();
  observed.job.status.trainer.term = 1;
  observed.pods = {pod};
  observed.nodes["a"] = ReadyNode();
  return observed;
}

Judgement Judge(const ObservedPod& pod) { return JudgePod(Around(pod), pod); }

ContainerEnd Exit(int code, const std::string& reason = "Error", const std::string& said = "") {
  return {.exit_code = code, .reason = reason, .message = said, .time = kNow};
}

ObservedPod EndedPod(const ContainerEnd& end) {
  ObservedPod pod = RunningPod();
  pod.phase = end.exit_code == 0 ? PodPhase::kSucceeded : PodPhase::kFailed;
  pod.end = end;
  return pod;
}

TEST(PodHealthTest, APodThatRunsOnAGoodNodeLives) {
  EXPECT_EQ(Judge(RunningPod()).health, Health::kLives);
}

TEST(PodHealthTest, WhatTheCloudsAndAutoscalersPutOnANodeIsANotice) {
  for (const char* key :
       {"aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "aws-node-termination-handler/rebalance-recommendation", "karpenter.sh/disrupted",
        "ToBeDeletedByClusterAutoscaler", "cloud.google.com/impending-node-termination",
        "remediator.kubernetes.azure.com/unschedulable",
        "node.cloudprovider.kubernetes.io/shutdown", "node.kubernetes.io/out-of-service"}) {
    Observed observed = Around(RunningPod());
    observed.nodes["a"].taints = {{.key = key, .value = "", .effect = "NoSchedule"}};
    const Judgement judgement = JudgePod(observed, RunningPod());
    EXPECT_EQ(judgement.health, Health::kEnds) << key;
    EXPECT_EQ(judgement.cause, Cause::kPreempted) << key;
    EXPECT_THAT(judgement.words, HasSubstr(key));
  }
}

TEST(PodHealthTest, WhatIsNoNoticeIsNotTakenForOne) {
  Observed observed = Around(RunningPod());
  observed.nodes["a"].taints = {
      {.key = "DeletionCandidateOfClusterAutoscaler", .value = "", .effect = "PreferNoSchedule"},
      {.key = "kubernetes.azure.com/scalesetpriority", .value = "spot", .effect = "NoSchedule"},
      {.key = "node.kubernetes.io/unschedulable", .value = "", .effect = "NoSchedule"}};
  EXPECT_EQ(JudgePod(observed, RunningPod()).health, Health::kLives);
}

TEST(PodHealthTest, AzuresScheduledEventsAndAKubeletThatShutsDownAreNotices) {
  ObservedNode node = ReadyNode();
  node.conditions.push_back({.type = "VMEventScheduled",
                             .status = "True",
                             .reason = "VMEventScheduled",
                             .message = "Preempt Scheduled: Mon, 19 Sep 2016 18:29:47 GMT"});
  EXPECT_THAT(NoticeOf(node), HasSubstr("Preempt"));
  node.conditions.back().message = "Freeze Scheduled: in a minute";
  EXPECT_EQ(NoticeOf(node), "");
  node = ReadyNode();
  node.conditions[0] = {.type = "Ready",
                        .status = "False",
                        .reason = "KubeletNotReady",
                        .message = "node is shutting down"};
  EXPECT_THAT(NoticeOf(node), HasSubstr("shuts down"));
}

TEST(PodHealthTest, ANodeThatIsGoneOrIsAnotherOneOfTheSameNameIsAPreemption) {
  Observed gone = Around(RunningPod());
  gone.nodes.clear();
  EXPECT_EQ(JudgePod(gone, RunningPod()).cause, Cause::kPreempted);
  EXPECT_THAT(JudgePod(gone, RunningPod()).words, HasSubstr("is gone"));

  Observed replaced = Around(RunningPod());
  replaced.nodes["a"].created = kNow - seconds(60);
  EXPECT_THAT(JudgePod(replaced, RunningPod()).words, HasSubstr("same name"));

  ObservedPod remembered = RunningPod();
  remembered.node_uid = "uid-of-another";
  EXPECT_THAT(Judge(remembered).words, HasSubstr("same name"));
}

TEST(PodHealthTest, ANodeThatIsNotKnownYetIsNotGone) {
  ObservedPod fresh = RunningPod();
  fresh.scheduled = kNow - seconds(2);
  Observed observed = Around(fresh);
  observed.nodes.clear();
  EXPECT_EQ(JudgePod(observed, fresh).health, Health::kLives);
}

TEST(PodHealthTest, WhoMayNotReadNodesConcludesNothingFromTheirAbsence) {
  Observed observed = Around(RunningPod());
  observed.nodes.clear();
  observed.nodes_known = false;
  EXPECT_EQ(JudgePod(observed, RunningPod()).health, Health::kLives);
}

TEST(PodHealthTest, ASilentNodeTakesItsPodsUnlessTheTrainerHearsThem) {
  Observed observed = Around(RunningPod());
  observed.nodes["a"].conditions[0].status = "Unknown";
  EXPECT_EQ(JudgePod(observed, RunningPod()).cause, Cause::kPreempted);

  TrainerView view{.status = {}, .heard = kNow};
  view.status.term = protocol::Term(1);
  view.status.stages = {
      {.stage = protocol::StageIndex(0), .workers = {{.id = protocol::WorkerId("job-w3")}}}};
  observed.trainer = view;
  EXPECT_EQ(JudgePod(observed, RunningPod()).health, Health::kLives);
  EXPECT_GT(JudgePod(observed, RunningPod()).look_again, kNow) << "its word does not last";
}

TEST(PodHealthTest, KubernetesOwnWordsForAPreemption) {
  for (const char* why : {"PreemptionByScheduler", "DeletionByTaintManager",
                          "EvictionByEvictionAPI", "DeletionByPodGC", "TerminationByKubelet"}) {
    ObservedPod pod = EndedPod(Exit(143));
    pod.disruption = why;
    EXPECT_EQ(Judge(pod).cause, Cause::kPreempted) << why;
  }
  for (const char* why : {"Shutdown", "NodeShutdown", "Terminated", "NodeLost"}) {
    ObservedPod pod = EndedPod(Exit(137));
    pod.reason = why;
    EXPECT_EQ(Judge(pod).cause, Cause::kPreempted) << why;
  }
  ObservedPod deleted = RunningPod();
  deleted.deleted = kNow;
  EXPECT_EQ(Judge(deleted).cause, Cause::kPreempted);
}

TEST(PodHealthTest, AnEvictionForWhatThePodUsedIsItsOwnFault) {
  ObservedPod pod = EndedPod(Exit(137));
  pod.reason = "Evicted";
  pod.disruption = "TerminationByKubelet";
  pod.message = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.";
  pod.end.reset();
  EXPECT_EQ(Judge(pod).cause, Cause::kFailed);
  pod.message = "The node was low on resource: memory.";
  EXPECT_EQ(Judge(pod).cause, Cause::kUnknown);
}

TEST(PodHealthTest, ExitCodesSayWhatTheyCan) {
  const auto judge = [](const ContainerEnd& end) { return JudgeExit(end); };
  EXPECT_EQ(judge(Exit(0, "Completed")).health, Health::kDone);
  EXPECT_EQ(judge(Exit(137, "OOMKilled")).cause, Cause::kFailed);
  EXPECT_EQ(judge(Exit(1)).cause, Cause::kFailed);
  EXPECT_EQ(judge(Exit(139)).cause, Cause::kFailed);
  EXPECT_EQ(judge(Exit(6)).cause, Cause::kFailed);
  for (const int nobody_knows : {137, 143, 3, 5, 7, 8}) {
    EXPECT_EQ(judge(Exit(nobody_knows)).cause, Cause::kUnknown) << nobody_knows;
  }
  EXPECT_EQ(judge(Exit(137, "ContainerStatusUnknown")).cause, Cause::kUnknown);
  const Judgement storage = judge(Exit(9, "Error", "the storage has not answered for 600 s"));
  EXPECT_EQ(storage.cause, Cause::kUnknown);
  EXPECT_TRUE(storage.hold_back);
}

TEST(PodHealthTest, WhatTryingAgainCannotMendSaysSo) {
  EXPECT_EQ(JudgeExit(Exit(2)).fatal, api::Reason::kBadConfiguration);
  const Judgement storage = JudgeExit(Exit(4, "Error", "s3://acme/run: 403 AccessDenied"));
  EXPECT_EQ(storage.fatal, api::Reason::kStorageRefused);
  EXPECT_THAT(storage.words, HasSubstr("403 AccessDenied"));
  EXPECT_EQ(JudgeExit(Exit(1)).fatal, std::nullopt);
}

TEST(PodHealthTest, APreemptionGoesBeforeTheExitCodeThatItBrings) {
  ObservedPod pod = EndedPod(Exit(1));
  Observed observed = Around(pod);
  observed.nodes["a"].taints = {
      {.key = "aws-node-termination-handler/spot-itn", .value = "", .effect = "NoSchedule"}};
  EXPECT_EQ(JudgePod(observed, pod).cause, Cause::kPreempted);
}

/// Waits for its image; `message` is the registry's answer.
ObservedPod PullingPod(const std::string& message) {
  ObservedPod pod = RunningPod();
  pod.phase = PodPhase::kPending;
  pod.waiting_reason = "ImagePullBackOff";
  pod.waiting_message = message;
  return pod;
}

TEST(PodHealthTest, AnImageThatDoesNotExistEndsTheJobOnceItWasAskedForAgain) {
  ObservedPod pod = PullingPod("rpc error: docker.io/acme/nothing:1: not found");
  pod.scheduled = kNow - seconds(20);
  EXPECT_EQ(Judge(pod).health, Health::kLives);
  EXPECT_GT(Judge(pod).look_again, kNow);
  pod.scheduled = kNow - seconds(60);
  EXPECT_EQ(Judge(pod).fatal, api::Reason::kImageNotAvailable);

  pod.waiting_message = "dial tcp: i/o timeout";
  EXPECT_EQ(Judge(pod).health, Health::kLives);

  pod.waiting_message = "not found";
  Observed another_has_it = Around(pod);
  another_has_it.pods.push_back(RunningPod());
  EXPECT_EQ(JudgePod(another_has_it, pod).health, Health::kLives);
}

TEST(PodHealthTest, WhatHasRunOnceIsNotGivenUpForOnePod) {
  const Observed never = Around(RunningPod());
  Observed ran = never;
  ran.job.status.hasRun.workers = true;
  for (const int code : {2, 4}) {
    const ObservedPod ended = EndedPod(Exit(code));
    EXPECT_TRUE(JudgePod(never, ended).fatal) << code;
    EXPECT_EQ(JudgePod(ran, ended).fatal, std::nullopt) << code;
    EXPECT_EQ(JudgePod(ran, ended).cause, Cause::kFailed) << code;
  }
  ObservedPod trainer = EndedPod(Exit(2));
  trainer.role = PodRole::kTrainer;
  EXPECT_TRUE(JudgePod(ran, trainer).fatal) << "workers have run, no trainer has";
}

TEST(PodHealthTest, AnImageThatWasThereOnceMayBeAwayForTenMinutesBeforeItIsAFailure) {
  ObservedPod pod = PullingPod("not found");
  pod.scheduled = kNow - seconds(599);
  Observed observed = Around(pod);
  observed.job.status.hasRun.workers = true;
  EXPECT_EQ(JudgePod(observed, pod).health, Health::kLives);
  EXPECT_EQ(JudgePod(observed, pod).look_again, kNow + seconds(1));
  observed.now += seconds(1);
  EXPECT_EQ(JudgePod(observed, pod).cause, Cause::kFailed);
  EXPECT_EQ(JudgePod(observed, pod).fatal, std::nullopt);

  ObservedPod longer = pod;
  longer.name = "job-w2";
  longer.scheduled = kNow - seconds(3000);
  observed.pods.push_back(longer);
  EXPECT_EQ(JudgePod(observed, longer).cause, Cause::kFailed);
  EXPECT_EQ(JudgePod(observed, pod).health, Health::kLives) << "its turn comes";
  ObservedPod trainer = pod;
  trainer.role = PodRole::kTrainer;
  observed.pods.push_back(trainer);
  observed.job.status.hasRun.trainer = true;
  EXPECT_EQ(JudgePod(observed, trainer).cause, Cause::kFailed) << "all wait for it";
  observed.pods.pop_back();

  observed.job.status.failureTimes = {kNow - seconds(300)};
  EXPECT_EQ(JudgePod(observed, longer).health, Health::kLives);
  EXPECT_EQ(JudgePod(observed, longer).look_again, kNow + seconds(300));

  pod.waiting_reason = "InvalidImageName";
  pod.scheduled = kNow - seconds(45);
  observed.pods = {pod};
  observed.job.status.failureTimes.clear();
  EXPECT_EQ(JudgePod(observed, pod).cause, Cause::kFailed) << "no registry was asked";
  observed.job.status.failureTimes = {kNow - seconds(100)};
  EXPECT_EQ(JudgePod(observed, pod).look_again, kNow + seconds(500)) << "one in ten minutes";
}

TEST(PodHealthTest, PodsThatPullOnAnAvoidedNodeWaitForNoOtherIfOthersRun) {
  ObservedPod pod = PullingPod("i/o timeout");
  pod.scheduled = kNow - seconds(45);
  ObservedPod first = pod;
  first.name = "job-w2";
  first.scheduled = kNow - seconds(50);
  Observed observed = Around(pod);
  observed.pods.push_back(first);
  observed.job.status.hasRun.workers = true;
  observed.job.status.nodes = {{.name = "a", .failures = 1, .avoided = true}};
  EXPECT_EQ(JudgePod(observed, pod).health, Health::kLives) << "the registry may be away";
  ObservedPod elsewhere = RunningPod();
  elsewhere.name = "job-w1";
  elsewhere.node = "b";
  observed.pods.push_back(elsewhere);
  EXPECT_EQ(JudgePod(observed, pod).cause, Cause::kFailed);
  EXPECT_EQ(JudgePod(observed, first).cause, Cause::kFailed);
  observed.job.status.nodes[0].avoided = false;
  EXPECT_EQ(JudgePod(observed, pod).health, Health::kLives);
}

TEST(PodHealthTest, FailuresAndEarlyEndsNameTheirNodeAndOtherEndsDoNot) {
  EXPECT_EQ(Judge(EndedPod(Exit(1))).node, "a");
  EXPECT_FALSE(Judge(EndedPod(Exit(1))).node_unfit);
  EXPECT_EQ(Judge(EndedPod(Exit(9))).node, "a") << "its network may not reach the storage";
  EXPECT_EQ(Judge(EndedPod(Exit(137))).node, "") << "after ten minutes of work";
  EXPECT_EQ(Judge(EndedPod(Exit(0))).node, "");
  ObservedPod preempted = EndedPod(Exit(1));
  preempted.disruption = "EvictionByEvictionAPI";
  EXPECT_EQ(Judge(preempted).node, "");
}

TEST(PodHealthTest, ANodeThatCannotStartTheProgramIsUnfit) {
  EXPECT_TRUE(Judge(EndedPod(Exit(128, "StartError", "runc: no such file"))).node_unfit);
  const Judgement other =
      Judge(EndedPod(Exit(255, "Error", "exec swarm-worker: exec format error")));
  EXPECT_TRUE(other.node_unfit);
  EXPECT_EQ(other.cause, Cause::kFailed);
  EXPECT_THAT(other.words, HasSubstr("processors"));

  ObservedPod pull = RunningPod();
  pull.phase = PodPhase::kPending;
  pull.waiting_reason = "ErrImagePull";
  pull.waiting_message = "no match for platform in manifest: not found";
  EXPECT_TRUE(Judge(pull).node_unfit);
  EXPECT_EQ(Judge(pull).fatal, std::nullopt) << "the image is there, for other nodes";
}

TEST(PodHealthTest, ANodeThatDoesNotStartAContainerForLongIsUnfitIfOthersDo) {
  ObservedPod stuck = RunningPod();
  stuck.phase = PodPhase::kPending;
  stuck.waiting_reason = "ContainerCreating";
  stuck.scheduled = kNow - seconds(1200);
  Observed observed = Around(stuck);
  EXPECT_EQ(JudgePod(observed, stuck).health, Health::kLives) << "it may be the job's own fault";
  ObservedPod other = RunningPod();
  other.name = "job-trainer-1";
  observed.pods.push_back(other);
  EXPECT_EQ(JudgePod(observed, stuck).health, Health::kLives) << "the same node starts that one";
  observed.pods.back().node = "b";
  const Judgement judgement = JudgePod(observed, stuck);
  EXPECT_EQ(judgement.health, Health::kEnds);
  EXPECT_EQ(judgement.cause, Cause::kUnknown);
  EXPECT_EQ(judgement.node, "a");
  EXPECT_TRUE(judgement.node_unfit);

  observed.now -= seconds(1);
  EXPECT_EQ(JudgePod(observed, stuck).look_again, kNow);
  observed.now = kNow;
  stuck.waiting_reason = "PodInitializing";
  EXPECT_EQ(JudgePod(observed, stuck).health, Health::kLives)
      << "its init containers may work long";
}

TEST(PodHealthTest, AWorkerThatTheTrainerHasLostIsMissingUntilKubernetesSaysWhy) {
  Observed observed = Around(RunningPod());
  TrainerView view{.status = {}, .heard = kNow};
  view.status.term = protocol::Term(1);
  view.status.evicted = {
      {.number = 1,
       .worker = protocol::WorkerId("job-w3"),
       .cause = protocol::EvictionCause::kSilent,
       .time = static_cast<double>((kNow - seconds(3)).time_since_epoch().count())}};
  observed.trainer = view;
  const Judgement missing = JudgePod(observed, RunningPod());
  EXPECT_EQ(missing.health, Health::kMissing);
  EXPECT_THAT(missing.words, HasSubstr("Silent"));

  Observed told = observed;
  told.nodes["a"].conditions[0].status = "Unknown";
  EXPECT_EQ(JudgePod(told, RunningPod()).cause, Cause::kPreempted);

  Observed later = observed;
  later.now += seconds(100);
  later.trainer->heard = later.now;
  EXPECT_EQ(JudgePod(later, RunningPod()).health, Health::kEnds);
  EXPECT_EQ(JudgePod(later, RunningPod()).cause, Cause::kUnknown);

  Observed back = observed;
  back.trainer->status.spares = {protocol::WorkerId("job-w3")};
  EXPECT_EQ(JudgePod(back, RunningPod()).health, Health::kLives);
}

TEST(PodHealthTest, AWorkerThatTheTrainerDoesNotHearIsMissingWhereItsClusterIsAway) {
  ObservedPod pod = RunningPod();
  pod.cluster = "west";
  Observed observed = Around(pod);
  observed.clusters["west"] = {.reachable = false, .since = kNow - seconds(90)};
  EXPECT_EQ(JudgePod(observed, pod).health, Health::kLives) << "no trainer says anything";

  TrainerView view{.status = {}, .heard = kNow};
  view.status.term = protocol::Term(1);
  view.status.state = protocol::JobState::kTraining;
  observed.trainer = view;
  const Judgement missing = JudgePod(observed, pod);
  EXPECT_EQ(missing.health, Health::kMissing);
  EXPECT_THAT(missing.words, HasSubstr("its cluster west is away"));

  Observed sooner = observed;
  sooner.clusters["west"].since += seconds(1);
  EXPECT_EQ(JudgePod(sooner, pod).health, Health::kLives);
  EXPECT_EQ(JudgePod(sooner, pod).look_again, kNow + seconds(1));

  Observed taking_over = observed;
  taking_over.trainer->status.state = protocol::JobState::kTakingOver;
  EXPECT_EQ(JudgePod(taking_over, pod).health, Health::kLives) << "its workers may be coming back";

  Observed connected = observed;
  connected.clusters["west"].reachable = true;
  EXPECT_EQ(JudgePod(connected, pod).health, Health::kLives) << "Kubernetes will say how it ended";

  Observed spare = observed;
  spare.trainer->status.spares = {protocol::WorkerId("job-w3")};
  EXPECT_EQ(JudgePod(spare, pod).health, Health::kLives);
}

TEST(PodHealthTest, AWorkerThatLastWaitedToStartIsJudgedByTheTrainerWhereItsClusterIsAway) {
  ObservedPod pulling = PullingPod("not found");
  pulling.scheduled = kNow - seconds(3600);
  pulling.cluster = "west";
  ObservedPod starting = pulling;
  starting.waiting_reason = "ContainerCreating";
  starting.waiting_message.clear();
  ObservedPod unscheduled = starting;
  unscheduled.node.clear();
  unscheduled.scheduled.reset();
  for (const ObservedPod& pod : {pulling, starting, unscheduled}) {
    Observed observed = Around(pod);
    observed.clusters["west"] = {.reachable = false, .since = kNow - seconds(89)};
    observed.trainer = TrainerView{.status = {}, .heard = kNow};
    observed.trainer->status.term = protocol::Term(1);
    observed.trainer->status.state = protocol::JobState::kTraining;
    EXPECT_EQ(JudgePod(observed, pod).health, Health::kLives);
    EXPECT_EQ(JudgePod(observed, pod).look_again, kNow + seconds(1));
    observed.now += seconds(1);
    EXPECT_EQ(JudgePod(observed, pod).health, Health::kMissing) << pod.waiting_reason;

    observed.trainer->status.spares = {protocol::WorkerId("job-w3")};
    EXPECT_EQ(JudgePod(observed, pod).health, Health::kLives) << "it has started meanwhile";
  }
}

TEST(PodHealthTest, ATrainerThatWaitsForItsImageIsJudgedWhereverItIs) {
  ObservedPod pod = PullingPod("not found");
  pod.scheduled = kNow - seconds(3600);
  pod.role = PodRole::kTrainer;
  pod.cluster = "west";
  Observed observed = Around(pod);
  observed.clusters["west"] = {.reachable = false, .since = kNow - seconds(89)};
  EXPECT_EQ(JudgePod(observed, pod).health, Health::kEnds);
}

}  // namespace
}  // namespace swarm::plan
