#include "operator/plan/decide.h"

#include <algorithm>

#include "operator/names/names.h"
#include "operator/plan/admission.h"
#include "operator/plan/assignment.h"
#include "operator/plan/cleanup.h"
#include "operator/plan/draft.h"
#include "operator/plan/money/budget.h"
#include "operator/plan/money/cost.h"
#include "operator/plan/observed_workers.h"
#include "operator/plan/pods/gone.h"
#include "operator/plan/pods/node_failures.h"
#include "operator/plan/report.h"
#include "operator/plan/trainer.h"
#include "operator/plan/trainer_view.h"
#include "operator/plan/workers.h"

namespace swarm::plan {
namespace {

using api::ConditionStatus;
using api::ConditionType;
using api::Reason;
using std::chrono::seconds;

/// Whether pods have numbers that the observed status has not reserved: the status is old.
bool IsStale(const Observed& observed) {
  const api::SwarmJobStatus& status = observed.job.status;
  return std::any_of(observed.pods.begin(), observed.pods.end(), [&](const ObservedPod& pod) {
    return pod.role == PodRole::kWorker ? pod.number >= status.nextWorkerOrdinal
                                        : pod.number > status.trainer.term;
  });
}

/// Remembers which programs have done their work, before their pods are gone.
void RememberRuns(Draft* draft) {
  api::HasRunStatus& has_run = draft->status().hasRun;
  const protocol::JobStatus* view = FreshView(draft->seen, kViewSeconds);
  const bool serves = std::ranges::any_of(draft->seen.pods, [](const ObservedPod& pod) {
    return pod.role == PodRole::kWorker && pod.ready;
  });
  has_run.workers |= serves;
  // Workers become ready by a trainer's word, also where the operator cannot reach it.
  has_run.trainer |= view == nullptr ? serves
                                     : view->state == protocol::JobState::kTraining ||
                                           view->state == protocol::JobState::kFinishing;
}

/// Chooses the image of new pods when the job begins, is resumed, or its annotation asks for that.
/// Otherwise it stays: an upgrade of the operator changes no program of a job that trains.
void ChooseImage(bool resumes, Draft* draft) {
  api::ImageStatus& chosen = draft->status().image;
  const api::ImageStatus& own = draft->seen.image;
  const bool begins = chosen.name.empty();
  const bool asks = !own.update.empty() && own.update != chosen.update;
  if (!begins && !resumes && !asks) return;
  if (!begins && chosen.name != own.name) {
    draft->Tell(Reason::kImageChanged, "new pods run " + own.name + " instead of " + chosen.name);
  }
  chosen = own;
}

void ApplyChildren(Draft* draft) {
  for (const Child child : kChildren) {
    if (!draft->seen.children.contains(child)) draft->plan.actions.push_back(ApplyChild{child});
  }
}

void Stop(Draft* draft) {
  const Hold& hold = *draft->hold;
  const bool began = IsHeld(draft->status());
  const bool stopped = StopTrainer(draft);
  if (draft->finished()) return;
  if (!stopped) {
    draft->Set(ConditionType::kSuspended, ConditionStatus::kFalse, Reason::kSuspending,
               "the trainer finishes its step and writes a checkpoint");
    if (!began) {
      draft->Tell(Reason::kSuspending, "the operator asked the trainer to write a checkpoint");
    }
    return;
  }
  const bool by_user = hold.reason == Reason::kSuspended;
  const bool had_pods = !draft->status().openWorkers.empty();
  if (!api::IsTrue(draft->status(), ConditionType::kSuspended) && (by_user || had_pods)) {
    draft->Tell(Reason::kSuspended, "the operator deletes all worker pods");
  }
  draft->status().openWorkers.clear();
  draft->status().pools.clear();
  draft->Set(ConditionType::kSuspended, ConditionStatus::kTrue, hold.reason, hold.words);
  draft->Set(ConditionType::kCapacityAvailable, ConditionStatus::kUnknown, hold.reason,
             "a suspended job asks for no nodes");
}

void Run(Draft* draft) {
  ApplyChildren(draft);
  ForgetNodes(draft);
  const bool resumes = IsHeld(draft->status());
  if (resumes) {
    draft->Set(ConditionType::kSuspended, ConditionStatus::kFalse, Reason::kNotSuspended,
               "spec.suspend is false");
    const bool queued = api::IsTrue(draft->status(), ConditionType::kAdmitted);
    draft->Tell(
        Reason::kResumed,
        queued ? "the queue admitted the job"
               : "spec.suspend is false" +
                     std::string(draft->job.spec.budget ? ", and the budget is not spent" : ""));
  }
  ChooseImage(resumes, draft);
  if (resumes && draft->status().trainer.term > 0) {
    ResumeTrainer(draft);
  } else {
    DecideTrainer(draft);
  }
  if (draft->finished()) return;
  DecideWorkers(draft);
  if (draft->finished()) return;
  DecideAssignment(draft);
}

/// Orders the actions, and applies the config only once: a new trainer needs it before its pod.
void Tidy(Plan* plan) {
  std::vector<Action>& actions = plan->actions;
  const Action config = ApplyChild{Child::kConfig};
  const auto first = std::find(actions.begin(), actions.end(), config);
  if (first != actions.end()) {
    actions.erase(std::remove(first + 1, actions.end(), config), actions.end());
  }
  // Deletions first: they make room for creations, also under a quota.
  const auto rank = [](const Action& action) {
    return std::holds_alternative<ApplyChild>(action)  ? 0
           : std::holds_alternative<DeletePod>(action) ? 1
                                                       : 2;
  };
  std::stable_sort(actions.begin(), actions.end(),
                   [&](const Action& a, const Action& b) { return rank(a) < rank(b); });
}

/// A job that has just finished gets no new pods.
void DropCreations(Plan* plan) {
  std::erase_if(plan->actions,
                [](const Action& action) { return !std::holds_alternative<DeletePod>(action); });
}

void Expire(Draft* draft) {
  const auto& ttl = draft->job.spec.ttlSecondsAfterFinished;
  if (!ttl || !draft->status().completionTime) return;
  const WallTime due = *draft->status().completionTime + seconds(static_cast<std::int64_t>(*ttl));
  if (draft->now() < due) return draft->LookAgain(due);
  draft->plan.actions.push_back(DeleteJob{});
}

/// Not beside a write of the status, which would be newer than what this decision has read. Not
/// before the first trainer, if the planner has chosen the number: until then a new generation of
/// the manifest asks it again.
void FillInReplicas(Draft* draft) {
  const ObservedJob& job = draft->seen.job;
  const bool settled =
      draft->plan.write == WriteStatus::kNo && (!job.choice || job.status.trainer.term > 0);
  if (!job.replicas_open || !settled || draft->finished()) return;
  draft->plan.actions.push_back(WriteReplicas{draft->job.spec.workers.replicas});
}

}  // namespace

Plan Decide(const Observed& observed) {
  const Plan nothing{.status = observed.job.status};
  if (observed.job.deleted) return nothing;
  if (!observed.job.job) {
    Plan plan = Reject(observed);
    DecideWrite(observed, &plan);
    return plan;
  }
  if (const std::string& other = observed.job.job->spec.managedBy; !other.empty()) {
    if (other != names::kMultiKueue) return nothing;
    Draft draft(observed);
    DecideElsewhere(&draft);
    return std::move(draft.plan);
  }
  if (IsStale(observed)) {
    Plan plan = nothing;
    plan.look_again = observed.now + seconds(1);
    return plan;
  }
  Draft draft(observed);
  for (const Creation& creation : observed.creations) {
    const WallTime settled = creation.time + kSettleTime;
    if (creation.made && observed.now < settled) draft.LookAgain(settled);
  }
  RememberRuns(&draft);
  CountCost(&draft);
  if (!draft.finished()) {
    JudgeBudget(&draft);
    draft.hold = DecideHold(&draft);
    draft.hold ? Stop(&draft) : Run(&draft);
  }
  if (draft.finished()) {
    DropCreations(&draft.plan);
    Expire(&draft);
  }
  CleanUpPods(&draft);
  RetireWorkers(&draft);
  Report(&draft);
  ReportToQueue(&draft);
  Tidy(&draft.plan);
  DecideWrite(observed, &draft.plan);
  FillInReplicas(&draft);
  return std::move(draft.plan);
}

}  // namespace swarm::plan
