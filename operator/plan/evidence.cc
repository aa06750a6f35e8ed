#include "operator/plan/evidence.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/exit.h"
#include "operator/plan/nodes.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;

/// From the trainer's word that a worker is lost to our own, if Kubernetes says nothing: longer
/// than a node controller takes to see that a node is silent (50 s).
constexpr seconds kLossPatience{90};
/// For how long a trainer that is not heard any more is believed that a worker is lost.
constexpr std::int64_t kLossViewSeconds = 60;
/// An image that is said not to exist is asked for again within this time.
constexpr seconds kImagePatience{45};
/// An image that cannot be had for whatever reason, by a job none of whose pods has ever had it.
constexpr seconds kPullPatience{600};
/// A program that ends sooner than this without a word has not begun to work.
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

/// An eviction because the pod itself used more than it may, or because its node ran out.
bool IsForResources(const ObservedPod& pod) {
  constexpr std::array<std::string_view, 4> kWords = {"low on resource", "exceeds the",
                                                      "exceeded its", "Usage of EmptyDir"};
  return pod.reason == "Evicted" || HasOneOf(pod.message, kWords) ||
         HasOneOf(pod.disruption_message, kWords);
}

/// What the pod's own record says about a preemption; empty: nothing.
std::string PreemptionInPod(const ObservedPod& pod) {
  constexpr std::array<std::string_view, 5> kTakenAway = {"Shutdown", "NodeShutdown", "Terminated",
                                                          "NodeLost", "Preempting"};
  if (!pod.disruption.empty() && !(pod.disruption == "TerminationByKubelet" && IsForResources(pod)))
    return "disrupted: " + pod.disruption;
  if (IsOneOf(pod.reason, kTakenAway)) return "taken away with its node: " + pod.reason;
  if (pod.deleted) return "deleted by somebody";
  return "";
}

/// What the pod's node says; `gone` means that nobody there will ever report again.
std::string PreemptionInNode(const Observed& observed, const ObservedPod& pod) {
  if (pod.node.empty() || !observed.nodes_known) return "";
  const auto it = observed.nodes.find(pod.node);
  if (it == observed.nodes.end()) {
    const bool settled =
        observed.now - pod.scheduled.value_or(pod.created) >= seconds(kSettledNodeSeconds);
    return settled ? "its node " + pod.node + " is gone" : "";
  }
  if (IsAnotherNode(it->second, pod)) {
    return "its node " + pod.node + " was replaced by another of the same name";
  }
  if (const std::string notice = NoticeOf(it->second); !notice.empty()) {
    return "its node " + pod.node + " is taken: " + notice;
  }
  return "";
}

/// Whether the trainer's word proves that the pod's program runs, whatever its node's state.
bool IsAlive(const Observed& observed, const ObservedPod& pod) {
  const protocol::JobStatus* view = FreshView(observed, kViewSeconds);
  if (view == nullptr) return false;
  if (pod.role == PodRole::kTrainer) return view->term.value == pod.number;
  return FindWorker(*view, pod.name) != nullptr;
}

bool IsOnSilentNode(const Observed& observed, const ObservedPod& pod) {
  if (pod.node.empty() || !observed.nodes_known) return false;
  const auto it = observed.nodes.find(pod.node);
  return it != observed.nodes.end() && !IsReady(it->second);
}

/// A pod that ended without its program having run, or whose program nobody saw end.
Judgement JudgeWithoutExit(const ObservedPod& pod) {
  if (pod.reason == "Evicted" && pod.message.find("exceed") != std::string::npos) {
    return Ends(Cause::kFailed, "evicted for what it used itself: " + pod.message);
  }
  if (pod.reason == "DeadlineExceeded") {
    return Ends(Cause::kFailed, "ran longer than activeDeadlineSeconds of its template");
  }
  Judgement judgement =
      Ends(Cause::kUnknown, pod.reason.empty() ? "failed without a word" : "failed: " + pod.reason);
  if (!pod.message.empty()) judgement.words += ": " + pod.message;
  return judgement;
}

bool HasRun(const Observed& observed, PodRole role) {
  return std::any_of(observed.pods.begin(), observed.pods.end(), [role](const ObservedPod& pod) {
    return pod.role == role && (pod.phase == PodPhase::kRunning || pod.end);
  });
}

/// A pod that waits for its image: an image that does not exist ends the job, early and clearly.
Judgement JudgeWaiting(const Observed& observed, const ObservedPod& pod) {
  constexpr std::array<std::string_view, 4> kPulls = {"ErrImagePull", "ImagePullBackOff",
                                                      "InvalidImageName", "ErrImageNeverPull"};
  constexpr std::array<std::string_view, 7> kRefusals = {
      "not found",    "manifest unknown", "does not exist",   "denied",
      "unauthorized", "403 Forbidden",    "invalid reference"};
  if (!IsOneOf(pod.waiting_reason, kPulls) || HasRun(observed, pod.role)) return {};
  const bool named_wrongly =
      pod.waiting_reason == "InvalidImageName" || pod.waiting_reason == "ErrImageNeverPull";
  const bool refused = HasOneOf(pod.waiting_message, kRefusals);
  const seconds patience = named_wrongly ? seconds(0) : refused ? kImagePatience : kPullPatience;
  const WallTime due = pod.scheduled.value_or(pod.created) + patience;
  if (observed.now < due) return {.look_again = due};
  Judgement judgement = Ends(Cause::kFailed, "its image cannot be had: " + pod.waiting_reason +
                                                 ": " + pod.waiting_message);
  judgement.fatal = "ImageNotAvailable";
  return judgement;
}

/// A worker that Kubernetes sees run: has the trainer lost it?
Judgement JudgeRunning(const Observed& observed, const ObservedPod& pod) {
  const protocol::JobStatus* fresh = FreshView(observed, kLossViewSeconds);
  if (pod.role != PodRole::kWorker || fresh == nullptr) return {};
  const protocol::JobStatus& view = *fresh;
  const auto eviction =
      std::find_if(view.evicted.rbegin(), view.evicted.rend(),
                   [&](const protocol::Eviction& e) { return e.worker.value == pod.name; });
  const bool spare = std::any_of(view.spares.begin(), view.spares.end(),
                                 [&](const auto& id) { return id.value == pod.name; });
  if (eviction == view.evicted.rend() || spare || FindWorker(view, pod.name) != nullptr) return {};
  const std::string words = "the trainer has lost it: " + std::string(NameOf(eviction->cause)) +
                            (eviction->text.empty() ? "" : " (" + eviction->text + ")");
  const WallTime lost_at{seconds(static_cast<std::int64_t>(eviction->time))};
  // Clocks differ; what a trainer dates into the future has just happened.
  const WallTime due = std::min(lost_at, observed.trainer->heard) + kLossPatience;
  if (observed.now >= due) {
    return Ends(Cause::kUnknown, words + ", and Kubernetes does not say why");
  }
  return {.health = Health::kMissing, .words = words, .look_again = due};
}

}  // namespace

const protocol::JobStatus* FreshView(const Observed& observed, std::int64_t age) {
  if (!observed.trainer || observed.now - observed.trainer->heard > seconds(age)) return nullptr;
  const protocol::JobStatus& view = observed.trainer->status;
  const bool counts = view.term.value == observed.job.status.trainer.term;
  return counts && view.state != protocol::JobState::kSuperseded ? &view : nullptr;
}

const protocol::StageStatus::Worker* FindWorker(const protocol::JobStatus& view,
                                                const std::string& id) {
  for (const protocol::StageStatus& stage : view.stages) {
    for (const protocol::StageStatus::Worker& worker : stage.workers) {
      if (worker.id.value == id) return &worker;
    }
  }
  return nullptr;
}

Judgement JudgeExit(const ContainerEnd& end) {
  const std::string said = end.message.empty() ? "" : ": " + end.message;
  if (end.exit_code == 0 && end.signal == 0) return {.health = Health::kDone};
  if (end.reason == "OOMKilled") {
    return Ends(Cause::kFailed, "used more memory than its limit (OOMKilled)");
  }
  if (end.reason == "ContainerStatusUnknown") {
    return Ends(Cause::kUnknown, "nobody knows how it ended");
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
      judgement.fatal = "BadConfiguration";
      break;
    case WorkerExit::kStorageRefused:
      judgement.fatal = "StorageRefused";
      break;
    case WorkerExit::kNothingToResume:
    case WorkerExit::kStopped:
      judgement.cause = Cause::kUnknown;
      judgement.words = "was told to stop by somebody";
      break;
    case WorkerExit::kSuperseded:
      judgement.cause = Cause::kUnknown;
      judgement.words = "gave way to a later trainer";
      break;
    case WorkerExit::kNoTrainer:
      judgement.cause = Cause::kUnknown;
      judgement.words = "found no trainer";
      break;
    default:
      if (end.message.find(NameOf(protocol::FailureClass::kStorageUnavailable)) !=
          std::string::npos) {
        judgement.cause = Cause::kUnknown;
        judgement.hold_back = true;
      }
  }
  return judgement;
}

Judgement JudgePod(const Observed& observed, const ObservedPod& pod) {
  Judgement exit;
  if (pod.end) exit = JudgeExit(*pod.end);
  if (exit.health == Health::kDone || pod.phase == PodPhase::kSucceeded) {
    return {.health = Health::kDone};
  }
  std::string preempted = PreemptionInPod(pod);
  if (preempted.empty()) preempted = PreemptionInNode(observed, pod);
  const bool silent = IsOnSilentNode(observed, pod);
  const bool heard = silent && IsAlive(observed, pod);
  if (preempted.empty() && silent && !heard) preempted = "its node " + pod.node + " is not ready";
  if (!preempted.empty()) return Ends(Cause::kPreempted, std::move(preempted));

  if (!pod.end && pod.phase == PodPhase::kFailed) exit = JudgeWithoutExit(pod);
  if (exit.health == Health::kEnds) {
    const WallTime ended = pod.end && pod.end->time ? *pod.end->time : pod.created;
    exit.hold_back |= exit.cause == Cause::kUnknown && ended - pod.created < kQuickEnd;
    return exit;
  }
  if (pod.phase == PodPhase::kPending) return JudgeWaiting(observed, pod);
  Judgement running = JudgeRunning(observed, pod);
  if (heard) running.look_again = observed.now + seconds(kViewSeconds + 1);
  return running;
}

}  // namespace swarm::plan
