#include "operator/plan/report.h"

#include <algorithm>

#include "api/layout.h"
#include "operator/plan/evidence.h"
#include "operator/plan/workers.h"

namespace swarm::plan {
namespace {

using api::ConditionStatus;
using api::JobState;
using std::chrono::seconds;

constexpr seconds kProgressPeriod{60};
constexpr seconds kCountsPeriod{5};
/// How old the trainer's word may be to be worth telling.
constexpr std::int64_t kReportSeconds = 30;

bool Serves(protocol::WorkerState state) {
  return state == protocol::WorkerState::kReady || state == protocol::WorkerState::kMoving ||
         state == protocol::WorkerState::kLeaving;
}

const ObservedPod* FindCurrentTrainer(const Draft& draft) {
  for (const ObservedPod& pod : draft.seen.pods) {
    if (pod.role == PodRole::kTrainer && pod.number == draft.plan.status.trainer.term) return &pod;
  }
  return nullptr;
}

void CountPods(Draft* draft) {
  api::SwarmJobStatus& status = draft->status();
  status.replicas = 0;
  status.readyReplicas = 0;
  const protocol::JobStatus* view = FreshView(draft->seen, kReportSeconds);
  for (const ObservedPod& pod : draft->seen.pods) {
    if (pod.role != PodRole::kWorker || pod.end ||
        !std::binary_search(status.openWorkers.begin(), status.openWorkers.end(), pod.number)) {
      continue;
    }
    ++status.replicas;
    const auto* worker = view == nullptr ? nullptr : FindWorker(*view, pod.name);
    const bool ready = view == nullptr ? pod.ready : worker != nullptr && Serves(worker->state);
    status.readyReplicas += ready ? 1 : 0;
  }
}

void CountStages(const protocol::JobStatus& view, Draft* draft) {
  std::vector<api::StageStatus>& stages = draft->status().stages;
  stages.clear();
  for (const protocol::StageStatus& stage : view.stages) {
    const auto ready = std::count_if(stage.workers.begin(), stage.workers.end(),
                                     [](const auto& w) { return Serves(w.state); });
    stages.push_back({stage.stage.value, static_cast<std::uint64_t>(ready)});
  }
}

void ReportProgress(const protocol::JobStatus& view, Draft* draft) {
  api::SwarmJobStatus& status = draft->status();
  if (view.state == protocol::JobState::kTraining || view.state == protocol::JobState::kFinishing ||
      view.state == protocol::JobState::kSucceeded) {
    status.step = view.step.value;
  }
  if (view.checkpoint.version.value > status.lastCheckpoint.step) {
    status.lastCheckpoint.step = view.checkpoint.version.value;
    status.lastCheckpoint.time.reset();
    if (view.checkpoint.time > 0) {
      status.lastCheckpoint.time =
          WallTime(seconds(static_cast<std::int64_t>(view.checkpoint.time)));
    }
  }
}

std::string StagesWithout(const std::vector<api::StageStatus>& stages) {
  std::string text;
  for (const api::StageStatus& stage : stages) {
    if (stage.ready == 0) text += (text.empty() ? "" : ", ") + std::to_string(stage.index);
  }
  return text;
}

void SetReady(Draft* draft) {
  const auto set = [draft](ConditionStatus value, const char* reason, std::string message) {
    draft->Set(api::kReady, value, reason, std::move(message));
  };
  const api::SwarmJobStatus& status = draft->status();
  if (draft->finished()) return set(ConditionStatus::kFalse, "Finished", "the job is over");
  if (draft->job.spec.suspend) return set(ConditionStatus::kFalse, "Suspended", "as asked for");
  const ObservedPod* trainer = FindCurrentTrainer(*draft);
  if (trainer == nullptr || trainer->end || trainer->phase != PodPhase::kRunning) {
    return set(ConditionStatus::kFalse, "TrainerStarting", "the trainer's pod does not run yet");
  }
  const protocol::JobStatus* view = FreshView(draft->seen, kReportSeconds);
  if (view == nullptr) {
    // An operator that cannot reach the trainer knows no more than what it knew before.
    if (api::FindCondition(status, api::kReady) == nullptr) {
      set(ConditionStatus::kFalse, "TrainerStarting", "the trainer has not been heard yet");
    }
    return;
  }
  const std::string missing = StagesWithout(status.stages);
  if (view->stages.empty() || !missing.empty()) {
    return set(
        ConditionStatus::kFalse, "StagesMissing",
        missing.empty() ? "no worker has come yet" : "without a ready worker: stage " + missing);
  }
  if (view->state != protocol::JobState::kTraining &&
      view->state != protocol::JobState::kFinishing) {
    return set(ConditionStatus::kFalse, "TrainerPrepares",
               "the trainer is " + std::string(NameOf(view->state)));
  }
  set(ConditionStatus::kTrue, "EveryStageReady", "every stage has a ready worker");
}

void SetOthers(Draft* draft) {
  const bool refused =
      draft->seen.refusal && (draft->seen.refusal->code == StatusCode::kInvalidArgument ||
                              draft->seen.refusal->code == StatusCode::kPermissionDenied);
  // While something of it runs, what the API server refuses is no reason to give all up.
  if (refused && draft->seen.pods.empty() && !draft->finished()) {
    draft->Set(api::kAccepted, ConditionStatus::kFalse, "PodRefused", draft->seen.refusal->message);
  } else {
    draft->Set(api::kAccepted, ConditionStatus::kTrue, "Valid", "the job can be run");
  }
  const auto default_to = [draft](std::string_view type, ConditionStatus value, const char* reason,
                                  const char* message) {
    if (api::FindCondition(draft->status(), type) == nullptr) {
      draft->Set(type, value, reason, message);
    }
  };
  default_to(api::kCapacityAvailable, ConditionStatus::kUnknown, "NotAsked",
             "no pod has waited yet");
  default_to(api::kSuspended, ConditionStatus::kFalse, "NotSuspended", "it may run");
  default_to(api::kSucceeded, ConditionStatus::kFalse, "NotFinished", "it is not over");
  default_to(api::kFailed, ConditionStatus::kFalse, "NotFinished", "it is not over");
}

JobState StateOf(const Draft& draft) {
  const api::SwarmJobStatus& status = draft.plan.status;
  if (api::IsTrue(status, api::kFailed)) return JobState::kFailed;
  if (api::IsTrue(status, api::kSucceeded)) return JobState::kSucceeded;
  if (api::IsTrue(status, api::kSuspended)) return JobState::kSuspended;
  if (draft.job.spec.suspend) return JobState::kSuspending;
  if (!api::IsTrue(status, api::kAccepted)) return JobState::kRejected;
  if (api::IsTrue(status, api::kReady)) return JobState::kRunning;
  const JobState before = draft.seen.job.status.state;
  if (before == JobState::kRunning || before == JobState::kRecovering) {
    return JobState::kRecovering;
  }
  const bool any_placed =
      std::any_of(draft.seen.pods.begin(), draft.seen.pods.end(),
                  [](const ObservedPod& pod) { return !pod.node.empty() && !pod.end; });
  return any_placed ? JobState::kStarting : JobState::kPending;
}

void ReportPlan(Draft* draft) {
  const api::Spec& spec = draft->job.spec;
  api::PlanStatus& plan = draft->status().plan;
  plan.replicas = spec.workers.replicas;
  plan.minReplicas = spec.workers.minReplicas;
  if (const auto layout = api::ComputeReplicas(draft->job, ""); layout.ok()) plan.layout = *layout;
}

/// The status without what may be written later.
api::SwarmJobStatus Without(api::SwarmJobStatus status, bool counts) {
  status.step = 0;
  status.lastCheckpoint = {};
  if (!counts) return status;
  status.replicas = status.readyReplicas = 0;
  status.stages.clear();
  for (api::Condition& condition : status.conditions) condition.message.clear();
  return status;
}

}  // namespace

void Report(Draft* draft) {
  api::SwarmJobStatus& status = draft->status();
  status.observedGeneration = draft->seen.job.generation;
  status.selector = "swarmjob.dev/job=" + draft->seen.job.name + ",swarmjob.dev/role=worker";
  ReportPlan(draft);
  CountPods(draft);
  if (draft->finished() || draft->job.spec.suspend) {
    for (api::StageStatus& stage : status.stages) stage.ready = 0;
  } else if (const protocol::JobStatus* view = FreshView(draft->seen, kReportSeconds)) {
    CountStages(*view, draft);
  }
  if (const protocol::JobStatus* view = FreshView(draft->seen, kReportSeconds)) {
    if (!api::IsTrue(status, api::kSucceeded)) ReportProgress(*view, draft);
  }
  SetOthers(draft);
  SetReady(draft);
  status.state = StateOf(*draft);
}

Plan Reject(const Observed& observed) {
  Plan plan{.status = observed.job.status};
  api::SwarmJobStatus& status = plan.status;
  if (api::IsTrue(status, api::kSucceeded) || api::IsTrue(status, api::kFailed)) return plan;
  std::string why;
  for (const std::string& reason : observed.job.refused) why += (why.empty() ? "" : "; ") + reason;
  status.observedGeneration = observed.job.generation;
  const auto set = [&](std::string_view type, ConditionStatus value, const char* reason,
                       const std::string& message) {
    api::SetCondition(
        {std::string(type), value, observed.job.generation, observed.now, reason, message},
        &status);
  };
  const api::Condition* before = api::FindCondition(status, api::kAccepted);
  const bool known =
      before != nullptr && before->status == ConditionStatus::kFalse && before->message == why;
  if (!known) plan.events.push_back({.warning = true, .reason = "Rejected", .message = why});
  set(api::kAccepted, ConditionStatus::kFalse, "Invalid", why);
  for (const std::string_view type : api::kConditionTypes) {
    if (api::FindCondition(status, type) != nullptr) continue;
    set(type, ConditionStatus::kUnknown, "Rejected", "the manifest cannot be run");
  }
  status.state = JobState::kRejected;
  return plan;
}

void DecideWrite(const Observed& observed, Plan* plan) {
  const api::SwarmJobStatus& before = observed.job.status;
  if (plan->status == before) return;
  const auto age =
      observed.status_written ? observed.now - *observed.status_written : seconds::max();
  const auto wait = [&](seconds period) {
    const WallTime due = *observed.status_written + period;
    if (!plan->look_again || due < *plan->look_again) plan->look_again = due;
  };
  if (Without(plan->status, true) != Without(before, true)) {
    plan->write = plan->actions.empty() ? WriteStatus::kLast : WriteStatus::kFirst;
  } else if (Without(plan->status, false) != Without(before, false)) {
    if (age < kCountsPeriod) return wait(kCountsPeriod);
    plan->write = WriteStatus::kLast;
  } else {
    if (age < kProgressPeriod) return wait(kProgressPeriod);
    plan->write = WriteStatus::kLast;
  }
}

}  // namespace swarm::plan
