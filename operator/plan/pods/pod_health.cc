#include "operator/plan/pods/pod_health.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/exit.h"
#include "operator/plan/pods/node_failures.h"
#include "operator/plan/pods/nodes.h"
#include "operator/plan/pods/pod_wait.h"
#include "operator/plan/pods/preemption.h"
#include "operator/plan/trainer_view.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;

/// After the trainer evicted a worker, Kubernetes has this long to say why, before the end counts
/// as unexplained. A node controller takes 50 s to see that a node is silent.
constexpr seconds kEvictionPatience{90};
/// A cluster may be away for this long before the trainer's silence about a worker there counts: it
/// may have come just then. As long as for an eviction.
constexpr seconds kAwayPatience = kEvictionPatience;
/// The greatest age of a trainer's status that proves an eviction.
constexpr std::int64_t kEvictionViewSeconds = 60;
/// How long the kubelet may retry to pull an image that the registry refuses or does not have.
constexpr seconds kImagePatience{45};
/// How long it may retry for any other reason, or if the image has been there once: then the
/// registry is in trouble, and that passes.
constexpr seconds kPullPatience{600};
/// How long a node may take to start a container, its image included.
constexpr seconds kStartPatience{1200};
/// A program that ends sooner than this, without an explanation, has not begun to work.
constexpr seconds kQuickEnd{60};

template <std::size_t N>
bool IsOneOf(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

template <std::size_t N>
bool HasOneOf(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return text.find(word) != text.npos; });
}

Judgement Ends(Cause cause, std::string words) {
  return {.health = Health::kEnds, .cause = cause, .words = std::move(words)};
}

/// An end for which the pod's node is to blame: no container of the job can start there.
Judgement Unfit(Cause cause, std::string words) {
  Judgement judgement = Ends(cause, std::move(words));
  judgement.node_unfit = true;
  return judgement;
}

/// Whether the trainer's view proves that the pod's program runs, whatever the state of its node.
bool IsAlive(const Evidence& evidence, const ObservedPod& pod) {
  const protocol::JobStatus* view = FreshView(evidence.seen(), kViewSeconds);
  if (view == nullptr) return false;
  if (pod.role == PodRole::kTrainer) return view->term.value == pod.number;
  return !evidence.WorkersOf(pod).empty();
}

bool IsOnSilentNode(const Observed& observed, const ObservedPod& pod) {
  const ObservedNode* node = FindNode(observed, pod);
  return node != nullptr && !IsReady(*node);
}

/// Judges a failed pod whose program has no exit code: it never ran, or its end was not recorded.
Judgement JudgeWithoutExit(const ObservedPod& pod) {
  if (pod.reason == "Evicted" && pod.message.find("exceed") != std::string::npos) {
    return Ends(Cause::kFailed, "evicted because it exceeded its limits: " + pod.message);
  }
  if (pod.reason == "DeadlineExceeded") {
    return Ends(Cause::kFailed, "ran longer than activeDeadlineSeconds of its template");
  }
  Judgement judgement = Ends(
      Cause::kUnknown, pod.reason.empty() ? "failed without a reason" : "failed: " + pod.reason);
  if (!pod.message.empty()) judgement.words += ": " + pod.message;
  return judgement;
}

bool HasRun(const Observed& observed, PodRole role) {
  const api::HasRunStatus& has_run = observed.job.status.hasRun;
  return role == PodRole::kTrainer ? has_run.trainer : has_run.workers;
}

/// Judges a pod whose image cannot be pulled. A job that has never had the image fails: it is named
/// wrongly. A job that has had it suffers from its registry or a node, so the pod is replaced. Then
/// one pod fails after the other, however many wait: an outage must not use up failurePolicy. On a
/// node that is avoided already, while others work, none waits for the others.
Judgement JudgePull(const Evidence& evidence, const ObservedPod& pod) {
  constexpr std::array<std::string_view, 7> kRefusals = {
      "not found",    "manifest unknown", "does not exist",   "denied",
      "unauthorized", "403 Forbidden",    "invalid reference"};
  if (pod.waiting_message.find("no match for platform") != std::string::npos) {
    return Unfit(Cause::kFailed, "its image is not for the processors of node " + pod.node + ": " +
                                     pod.waiting_message);
  }
  const bool never_asked =
      pod.waiting_reason == "InvalidImageName" || pod.waiting_reason == "ErrImageNeverPull";
  const bool refused = HasOneOf(pod.waiting_message, kRefusals);
  const Observed& observed = evidence.seen();
  const bool had = HasRun(observed, pod.role) || evidence.HasHadImage(pod.role);
  seconds patience = kPullPatience;
  if (never_asked) {
    patience = had ? kImagePatience : seconds(0);
  } else if (refused && !had) {
    patience = kImagePatience;
  }
  const bool at_fault = IsAvoided(observed.job.status, pod.node) && evidence.RunsElsewhere(pod);
  if (at_fault) patience = kImagePatience;
  WallTime due = BoundAt(pod) + patience;
  if (had && !at_fault) {
    if (!evidence.IsFirstInLine(pod)) return {};
    const std::vector<WallTime>& failures = observed.job.status.failureTimes;
    if (!failures.empty()) due = std::max(due, failures.back() + kPullPatience);
  }
  if (observed.now < due) return {.look_again = due};
  Judgement judgement = Ends(Cause::kFailed, "its image cannot be pulled: " + pod.waiting_reason +
                                                 ": " + pod.waiting_message);
  if (!had) judgement.fatal = api::Reason::kImageNotAvailable;
  judgement.node_unfit = had && pod.waiting_reason != "InvalidImageName";
  return judgement;
}

/// Judges a pod that waits for its node to start it. Where other nodes start containers of the job,
/// a node that does not for long is to blame.
Judgement JudgeStart(const Evidence& evidence, const ObservedPod& pod) {
  constexpr std::array<std::string_view, 4> kNodesWork = {
      "", "ContainerCreating", "CreateContainerError", "RunContainerError"};
  const bool others_start = evidence.RunsElsewhere(pod);
  if (pod.node.empty() || !IsOneOf(pod.waiting_reason, kNodesWork) || !others_start) return {};
  const WallTime due = BoundAt(pod) + kStartPatience;
  if (evidence.seen().now < due) return {.look_again = due};
  const std::string why = pod.waiting_reason + ": " + pod.waiting_message;
  return Unfit(Cause::kUnknown, "node " + pod.node + " has not started it within " +
                                    std::to_string(kStartPatience.count()) + " s: " + why);
}

/// Whether the pod's cluster is away: what it said last about the pod may be long past.
bool IsAway(const Observed& observed, const ObservedPod& pod) {
  const auto cluster = observed.clusters.find(pod.cluster);
  return cluster != observed.clusters.end() && !cluster->second.reachable;
}

/// Judges a pod of whose workers the trainer lists none. A cluster that is away does not say that a
/// pod has ended, so one that the trainer does not hear is missing until the cluster is back.
Judgement JudgeUnheard(const Observed& observed, const ObservedPod& pod) {
  if (!IsAway(observed, pod)) return {};
  const protocol::JobStatus* view = FreshView(observed, kViewSeconds);
  if (view == nullptr || view->state == protocol::JobState::kTakingOver) return {};
  const WallTime due = observed.clusters.at(pod.cluster).since + kAwayPatience;
  if (observed.now < due) return {.look_again = due};
  return {.health = Health::kMissing,
          .words = "its cluster " + pod.cluster + " is away, and the trainer does not hear it"};
}

/// Judges a pod of workers that runs as far as Kubernetes knows, or whose cluster is away. The
/// trainer may have lost them all.
Judgement JudgeRunning(const Evidence& evidence, const ObservedPod& pod) {
  const Observed& observed = evidence.seen();
  const bool heard = FreshView(observed, kEvictionViewSeconds) != nullptr;
  if (pod.role != PodRole::kWorker || !heard) return {};
  if (evidence.HasSpare(pod) || !evidence.WorkersOf(pod).empty()) return {};
  const protocol::Eviction* eviction = evidence.EvictionOf(pod);
  if (eviction == nullptr) return JudgeUnheard(observed, pod);
  const std::string words = "the trainer evicted it: " + std::string(NameOf(eviction->cause)) +
                            (eviction->text.empty() ? "" : " (" + eviction->text + ")");
  const WallTime evicted_at{seconds(static_cast<std::int64_t>(eviction->time))};
  // Clocks differ: an eviction that the trainer dates into the future has just happened.
  const WallTime due = std::min(evicted_at, observed.trainer->heard) + kEvictionPatience;
  if (observed.now >= due) {
    return Ends(Cause::kUnknown, words + ", and Kubernetes does not say why");
  }
  return {.health = Health::kMissing, .words = words, .look_again = due};
}

}  // namespace

Judgement JudgeExit(const ContainerEnd& end) {
  const std::string said = end.message.empty() ? "" : ": " + end.message;
  if (end.exit_code == 0 && end.signal == 0) return {.health = Health::kDone};
  if (end.reason == "OOMKilled") {
    return Ends(Cause::kFailed, "used more memory than its limit (OOMKilled)");
  }
  if (end.reason == "ContainerStatusUnknown") {
    return Ends(Cause::kUnknown, "ended, and its node does not know how");
  }
  if (end.message.find("exec format error") != std::string::npos) {
    return Unfit(Cause::kFailed, "its program is not for the processors of its node" + said);
  }
  if (end.reason == "StartError" || end.reason == "ContainerCannotRun") {
    return Unfit(Cause::kFailed, "its node could not start its container" + said);
  }
  const int signal = end.signal != 0 ? end.signal : end.exit_code > 128 ? end.exit_code - 128 : 0;
  if (signal == 9 || signal == 15) {
    return Ends(Cause::kUnknown, "ended by signal " + std::to_string(signal));
  }
  if (signal != 0) return Ends(Cause::kFailed, "crashed with signal " + std::to_string(signal));
  Judgement judgement =
      Ends(Cause::kFailed, "ended with exit code " + std::to_string(end.exit_code) + said);
  switch (end.exit_code) {
    case WorkerExit::kBadUsage:
      judgement.fatal = api::Reason::kBadConfiguration;
      break;
    case WorkerExit::kStorageRefused:
      judgement.fatal = api::Reason::kStorageRefused;
      break;
    case WorkerExit::kNothingToResume:
    case WorkerExit::kStopped:
      judgement.cause = Cause::kUnknown;
      judgement.words = "was told to stop, but not by the operator";
      break;
    case WorkerExit::kSuperseded:
      judgement.cause = Cause::kUnknown;
      judgement.words = "gave way to a later trainer";
      break;
    case WorkerExit::kWasStopped:
      judgement.cause = Cause::kUnknown;
      judgement.words = "was stopped for a time and leaves its workers to the next trainer";
      break;
    case WorkerExit::kNoTrainer:
      judgement.cause = Cause::kUnknown;
      judgement.words = "could not reach a trainer";
      break;
    case WorkerExit::kStorageUnavailable:
      judgement.cause = Cause::kUnknown;
      judgement.hold_back = true;
      break;
    default:
      break;
  }
  return judgement;
}

/// The judgement without the node that may be to blame.
static Judgement JudgeEnd(const Evidence& evidence, const ObservedPod& pod) {
  const Observed& observed = evidence.seen();
  Judgement exit;
  if (pod.end) exit = JudgeExit(*pod.end);
  if (exit.health == Health::kDone || pod.phase == PodPhase::kSucceeded) {
    return {.health = Health::kDone};
  }
  std::string preempted = PreemptionOf(observed, pod);
  const bool silent = IsOnSilentNode(observed, pod);
  const bool heard = silent && IsAlive(evidence, pod);
  if (preempted.empty() && silent && !heard) preempted = "its node " + pod.node + " is not ready";
  if (!preempted.empty()) return Ends(Cause::kPreempted, std::move(preempted));

  if (!pod.end && pod.phase == PodPhase::kFailed) exit = JudgeWithoutExit(pod);
  if (exit.health == Health::kEnds) {
    const WallTime ended = pod.end && pod.end->time ? *pod.end->time : pod.created;
    exit.hold_back |= exit.cause == Cause::kUnknown && ended - pod.created < kQuickEnd;
    if (HasRun(observed, pod.role)) exit.fatal.reset();
    return exit;
  }
  // Of a worker that last waited to start in a cluster that is away, only the trainer may hear.
  const bool waits = pod.role == PodRole::kTrainer || !IsAway(observed, pod);
  if (waits && WaitsForImage(pod)) return JudgePull(evidence, pod);
  if (waits && pod.phase == PodPhase::kPending) return JudgeStart(evidence, pod);
  Judgement running = JudgeRunning(evidence, pod);
  if (heard) running.look_again = observed.now + seconds(kViewSeconds + 1);
  return running;
}

Judgement JudgePod(const Evidence& evidence, const ObservedPod& pod) {
  Judgement judgement = JudgeEnd(evidence, pod);
  const bool blames =
      judgement.cause == Cause::kFailed || judgement.hold_back || judgement.node_unfit;
  if (judgement.health == Health::kEnds && blames) judgement.node = pod.node;
  return judgement;
}

}  // namespace swarm::plan
