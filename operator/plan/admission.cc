#include "operator/plan/admission.h"

#include <algorithm>
#include <vector>

#include "api/format/enum_names.h"
#include "operator/plan/money/budget.h"
#include "operator/plan/pools/pools.h"

namespace swarm::plan {
namespace {

using api::ConditionStatus;
using api::ConditionType;
using api::Reason;
using Pods = std::map<std::string, std::uint64_t>;

/// When the operator asks again what it was refused.
constexpr std::chrono::seconds kRetry{30};

bool HasPods(const Draft& draft) {
  return std::ranges::any_of(draft.seen.pods, [](const ObservedPod& pod) {
    return !pod.end && pod.phase != PodPhase::kFailed && pod.phase != PodPhase::kSucceeded;
  });
}

std::uint64_t Sum(const Pods& pods) {
  std::uint64_t sum = 0;
  for (const auto& [pool, count] : pods) sum += count;
  return sum;
}

/// Sets the condition Admitted, and tells an event if its reason is new.
void SetAdmitted(ConditionStatus value, Reason reason, const std::string& words, Draft* draft) {
  const api::Condition* before = api::FindCondition(draft->status(), ConditionType::kAdmitted);
  if (before == nullptr || before->reason != NameOf(reason)) {
    const bool bad = reason == Reason::kEvicted || reason == Reason::kQueueUnavailable;
    bad ? draft->Warn(reason, words) : draft->Tell(reason, words);
  }
  draft->Set(ConditionType::kAdmitted, value, reason, words);
}

/// The job wants no quota: it is suspended, in words, or its queue's label is gone.
void Leave(const ObservedQueue& queue, const std::string& suspended, Draft* draft) {
  const bool has_queue = !queue.name.empty();
  if (queue.workload && !queue.prebuilt && !queue.workload->deleted &&
      !(has_queue && HasPods(*draft))) {
    draft->plan.actions.push_back(DeleteWorkload{queue.workload->uid});
  }
  if (has_queue) {
    draft->Set(ConditionType::kAdmitted, ConditionStatus::kFalse, Reason::kSuspended,
               suspended + ", so the job asks for no quota");
  } else if (!queue.workload) {
    std::erase_if(draft->status().conditions, [](const api::Condition& condition) {
      return condition.type == NameOf(ConditionType::kAdmitted);
    });
  }
}

Hold Wait(const ObservedQueue& queue, Reason reason, const std::string& words, Draft* draft) {
  SetAdmitted(ConditionStatus::kFalse, reason,
              "queue " + queue.name + (words.empty() ? "" : ": " + words), draft);
  return {Reason::kNotAdmitted, "queue " + queue.name + " has not admitted the job"};
}

/// Waits for an answer to a new or corrected Workload.
Hold Ask(const ObservedQueue& queue, const std::string& words, Draft* draft) {
  draft->plan.actions.push_back(WriteWorkload{});
  if (queue.refusal.empty()) return Wait(queue, Reason::kQueued, words, draft);
  draft->LookAgain(draft->now() + kRetry);
  return Wait(queue, Reason::kQueueUnavailable, queue.refusal, draft);
}

/// A job that trains is not stopped for what the operator cannot see.
std::optional<Hold> GoOnBlind(const ObservedQueue& queue, Draft* draft) {
  draft->LookAgain(draft->now() + kRetry);
  SetAdmitted(ConditionStatus::kUnknown, Reason::kQueueUnavailable,
              "queue " + queue.name + ": " + queue.unreadable, draft);
  if (draft->status().trainer.term > 0 && !IsHeld(draft->status())) return std::nullopt;
  return Hold{Reason::kNotAdmitted, "the operator cannot ask queue " + queue.name};
}

/// Replaces a Workload that cannot be corrected, once its quota is not in use.
Hold Replace(const ObservedQueue& queue, const std::string& why, Draft* draft) {
  if (!queue.prebuilt && !queue.workload->deleted && !HasPods(*draft)) {
    draft->plan.actions.push_back(DeleteWorkload{queue.workload->uid});
  }
  return Wait(queue, Reason::kQueued, why, draft);
}

void Admit(const ObservedQueue& queue, const Pods& asked, Draft* draft) {
  const Pods& admitted = queue.workload->pods;
  std::string words = "queue " + queue.name + " admitted " + std::to_string(Sum(admitted)) +
                      " pods of workers beside the trainer";
  const bool exceeds = std::ranges::any_of(asked, [&](const auto& pool) {
    const auto found = admitted.find(pool.first);
    return found == admitted.end() || found->second < pool.second;
  });
  if (exceeds) {
    words += "; the manifest asks for " + std::to_string(Sum(asked)) +
             ": suspend the job and resume it to ask the queue for them";
  }
  SetAdmitted(ConditionStatus::kTrue, Reason::kAdmitted, words, draft);
}

std::optional<Hold> Queue(const ObservedQueue& queue, Draft* draft) {
  if (!queue.unreadable.empty()) return GoOnBlind(queue, draft);
  const Pods asked = AskedPods(draft->job.spec, draft->seen.pod_sizes);
  if (!queue.workload) {
    // Pods that are still there would use the quota of others.
    if (queue.prebuilt || HasPods(*draft))
      return Wait(queue, Reason::kQueued, "the job's Workload is gone", draft);
    return Ask(queue, "the job asks for its quota", draft);
  }
  const ObservedWorkload& workload = *queue.workload;
  if (workload.deleted) return Replace(queue, "the job's Workload is being deleted", draft);
  if (workload.finished) return Replace(queue, "the job's Workload was finished", draft);
  if (!workload.has_quota) {
    if (!queue.prebuilt && (workload.outdated || workload.pods != asked)) {
      return Ask(queue, "the job asks for other quota", draft);
    }
    return Wait(queue, workload.evicted ? Reason::kEvicted : Reason::kQueued, workload.words,
                draft);
  }
  if (!queue.prebuilt && workload.outdated)
    return Replace(queue, "the pods of the manifest have changed", draft);
  if (workload.evicted) {
    if (!HasPods(*draft)) {
      draft->plan.actions.push_back(TellQueue{JobNews::kStopped, workload.version, workload.words});
    }
    return Wait(queue, Reason::kEvicted, workload.words, draft);
  }
  if (!workload.admitted || !workload.active) {
    return Wait(queue, Reason::kQueued, workload.words, draft);
  }
  Admit(queue, asked, draft);
  return std::nullopt;
}

}  // namespace

std::optional<Hold> DecideHold(Draft* draft) {
  const std::optional<ObservedQueue>& queue = draft->seen.queue;
  const std::string suspended = WhySuspended(*draft);
  if (queue && (!suspended.empty() || queue->name.empty())) Leave(*queue, suspended, draft);
  if (!suspended.empty()) return Hold{Reason::kSuspended, suspended};
  if (!queue || queue->name.empty()) return std::nullopt;
  return Queue(*queue, draft);
}

void DecideElsewhere(Draft* draft) {
  const std::optional<ObservedQueue>& queue = draft->seen.queue;
  if (!queue || draft->finished()) return;
  if (!queue->unreadable.empty()) return draft->LookAgain(draft->now() + kRetry);
  const std::optional<ObservedWorkload>& workload = queue->workload;
  const bool is_open = workload && !workload->deleted && !workload->finished;
  if (queue->name.empty() || draft->job.spec.suspend) {
    // MultiKueue then removes the job there.
    if (is_open) draft->plan.actions.push_back(DeleteWorkload{workload->uid});
    return;
  }
  const Pods asked = AskedPods(draft->job.spec, draft->seen.pod_sizes);
  if (!workload ||
      (is_open && !workload->has_quota && (workload->outdated || workload->pods != asked))) {
    draft->plan.actions.push_back(WriteWorkload{});
    if (!queue->refusal.empty()) draft->LookAgain(draft->now() + kRetry);
  } else if (is_open && workload->has_quota && workload->outdated) {
    draft->plan.actions.push_back(DeleteWorkload{workload->uid});
  }
}

void ReportToQueue(Draft* draft) {
  const std::optional<ObservedQueue>& queue = draft->seen.queue;
  if (!queue || !queue->workload || queue->workload->finished || queue->workload->deleted) return;
  const ObservedWorkload& workload = *queue->workload;
  const auto tell = [&](JobNews news, const std::string& words) {
    draft->plan.actions.push_back(TellQueue{news, workload.version, words});
  };
  if (draft->finished()) {
    const bool failed = api::IsTrue(draft->status(), ConditionType::kFailed);
    const auto type = failed ? ConditionType::kFailed : ConditionType::kSucceeded;
    return tell(failed ? JobNews::kFailed : JobNews::kSucceeded,
                api::FindCondition(draft->status(), type)->message);
  }
  // Said once: a job that loses workers recovers by itself, and needs no eviction for that.
  if (!draft->hold && workload.admitted && !workload.pods_ready &&
      api::IsTrue(draft->status(), ConditionType::kReady)) {
    tell(JobNews::kReady, "every stage has a ready worker");
  }
}

std::map<std::string, std::uint64_t> AskedPods(
    const api::Spec& spec, const std::map<std::string, std::uint64_t>& pod_sizes) {
  std::vector<PoolView> pools;
  for (const api::Pool& pool : spec.workers.pools) {
    const auto size = pod_sizes.find(pool.name);
    pools.push_back({.spec = &pool,
                     .load = {},
                     .memory = {.name = pool.name},
                     .pod_workers = size == pod_sizes.end() ? 1 : size->second});
  }
  const auto targets = Spread(std::max(spec.workers.replicas, spec.pipeline.stages), pools);
  Pods asked;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (targets[i].pods > 0 && pools[i].spec->cluster.empty()) {
      asked[pools[i].spec->name] = targets[i].pods;
    }
  }
  return asked;
}

std::optional<std::map<std::string, std::uint64_t>> AdmittedPods(const Observed& observed) {
  const std::optional<ObservedQueue>& queue = observed.queue;
  if (!queue || queue->name.empty() || !queue->workload) return std::nullopt;
  return queue->workload->pods;
}

}  // namespace swarm::plan
