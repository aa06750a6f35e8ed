#include "operator/plan/pods/pod_ends.h"

#include <algorithm>

#include "operator/plan/pods/backoff.h"
#include "operator/plan/pods/failure_window.h"
#include "operator/plan/pods/node_failures.h"

namespace swarm::plan {
namespace {

using std::chrono::seconds;

constexpr seconds kFirstWait{1};
constexpr seconds kLongestWait{60};
/// How long a pod that ended by itself is kept for its log.
constexpr seconds kKeep{600};
/// At the end of the job the trainer dismisses the workers, which end before it does. They are not
/// replaced until the trainer has had this long to end.
constexpr seconds kDismissal{30};
constexpr std::size_t kNamesMax = 4;

seconds Window(const api::Spec& spec) {
  return seconds(static_cast<std::int64_t>(spec.failurePolicy.windowSeconds));
}

}  // namespace

WallTime EndTimeOf(const ObservedPod& pod) {
  return pod.end && pod.end->time ? *pod.end->time : pod.created;
}

void CountEnd(PodRole role, const std::string& name, const Judgement& end, Draft* draft) {
  api::SwarmJobStatus& status = draft->status();
  draft->plan.ends.push_back({role, end.cause});
  const bool charged = !IsFaultOfAvoidedNode(role, end, *draft);
  CountForNode(name, end, draft);
  switch (end.cause) {
    case Cause::kPreempted:
      ++status.preemptions;
      return;
    case Cause::kUnknown:
      ++status.unexplained;
      return;
    case Cause::kFailed:
      break;
  }
  ++status.failures;
  const api::Spec& spec = draft->job.spec;
  const bool too_many =
      charged && ChargeFailure(draft->now(), Window(spec), spec.failurePolicy.maxFailures,
                               &status.failureTimes);
  if (end.fatal) {
    draft->Fail(*end.fatal, name + ": " + end.words);
  } else if (too_many) {
    draft->Fail(api::Reason::kTooManyFailures,
                name + " " + end.words + ", the last of " +
                    std::to_string(status.failureTimes.size()) + " failures within " +
                    std::to_string(spec.failurePolicy.windowSeconds) + " s");
  }
}

void TellEnds(const std::vector<std::pair<std::string, Judgement>>& ends, Draft* draft) {
  constexpr std::pair<Cause, api::Reason> kReasons[] = {
      {Cause::kPreempted, api::Reason::kWorkerPreempted},
      {Cause::kFailed, api::Reason::kWorkerFailed},
      {Cause::kUnknown, api::Reason::kWorkerLost}};
  for (const auto& [cause, reason] : kReasons) {
    std::string names;
    std::string words;
    std::size_t count = 0;
    for (const auto& [name, end] : ends) {
      if (end.cause != cause) continue;
      if (count++ == 0) words = end.words;
      if (count <= kNamesMax) names += (names.empty() ? "" : ", ") + name;
    }
    if (count == 0) continue;
    if (count > kNamesMax) names += " and " + std::to_string(count - kNamesMax) + " more";
    draft->Warn(reason, names + ": " + words);
  }
}

std::optional<WallTime> HeldBackUntil(const Evidence& evidence, PodRole role,
                                      const api::SwarmJobStatus& status,
                                      std::optional<WallTime> failed) {
  const Observed& observed = evidence.seen();
  std::optional<WallTime> until;
  const auto hold = [&](WallTime last, std::uint64_t attempts) {
    const WallTime time =
        last + BackOff(kFirstWait, kLongestWait, attempts, observed.job.uid + "/ends");
    if (time > observed.now && (!until || time > *until)) until = time;
  };
  std::vector<WallTime> failures = status.failureTimes;
  if (failed) failures.push_back(*failed);
  std::erase_if(failures, [&](WallTime time) {
    return observed.now - time >= Window(observed.job.job->spec);
  });
  if (failures.size() > 1) hold(failures.back(), failures.size() - 1);
  // Where only an avoided node has room, its failures are not charged, and come as slowly. What
  // workers do on it does not keep the trainer waiting.
  const auto has_trainer = [&](const api::NodeStatus& node) {
    return std::ranges::any_of(observed.pods, [&](const ObservedPod& pod) {
      return pod.role == PodRole::kTrainer && pod.number == status.trainer.term &&
             pod.node == node.name;
    });
  };
  for (const api::NodeStatus& node : status.nodes) {
    if (!node.avoided || (role == PodRole::kTrainer && !has_trainer(node))) continue;
    hold(node.lastFailureTime, node.failures);
  }

  const bool trains = observed.trainer &&
                      observed.trainer->status.state == protocol::JobState::kTraining &&
                      observed.trainer->status.term.value == status.trainer.term;
  std::uint64_t quick = 0;
  WallTime last{};
  for (const ObservedPod& pod : observed.pods) {
    if (pod.role != role) continue;
    const Judgement judgement = JudgePod(evidence, pod);
    if (judgement.health == Health::kDone && role == PodRole::kWorker && !trains) {
      const WallTime time = EndTimeOf(pod) + kDismissal;
      if (time > observed.now && (!until || time > *until)) until = time;
    }
    if (judgement.health != Health::kEnds || !judgement.hold_back) continue;
    ++quick;
    last = std::max(last, EndTimeOf(pod));
  }
  if (quick > 0) hold(last, quick);
  return until;
}

std::optional<WallTime> KeptUntil(const Evidence& evidence, const ObservedPod& pod) {
  const Judgement judgement = JudgePod(evidence, pod);
  if (judgement.health == Health::kDone) return EndTimeOf(pod) + kDismissal;
  const bool ended = pod.end || pod.phase == PodPhase::kFailed;
  if (!ended || judgement.health != Health::kEnds || judgement.cause == Cause::kPreempted) {
    return std::nullopt;
  }
  return EndTimeOf(pod) + kKeep;
}

}  // namespace swarm::plan
