#include "operator/plan/report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "api/format/enum_names.h"
#include "api/model/decoder_config.h"
#include "api/model/layout.h"
#include "base/short_time.h"
#include "operator/names/names.h"
#include "operator/plan/clusters.h"
#include "operator/plan/money/cost.h"
#include "operator/plan/places.h"
#include "operator/plan/pods/pod_wait.h"
#include "operator/plan/rounded.h"
#include "operator/plan/trainer.h"
#include "operator/plan/trainer_view.h"

namespace swarm::plan {
namespace {

using api::ConditionStatus;
using api::ConditionType;
using api::JobState;
using api::Reason;
using std::chrono::seconds;

constexpr seconds kProgressPeriod{60};
constexpr seconds kCountsPeriod{5};
/// The greatest age of the trainer's status that is reported.
constexpr std::int64_t kReportSeconds = 30;

bool Serves(protocol::WorkerState state) {
  return state == protocol::WorkerState::kReady || state == protocol::WorkerState::kMoving ||
         state == protocol::WorkerState::kLeaving;
}

/// Of all clusters together, and by cluster.
void CountWorkers(Draft* draft) {
  api::SwarmJobStatus& status = draft->status();
  const protocol::JobStatus* view = FreshView(draft->seen, kReportSeconds);
  std::map<std::string, WorkerCount> counts;
  for (const ObservedPod& pod : draft->seen.pods) {
    if (pod.role != PodRole::kWorker || pod.end ||
        !std::binary_search(status.openWorkers.begin(), status.openWorkers.end(), pod.number)) {
      continue;
    }
    WorkerCount& count = counts[pod.cluster];
    count.replicas += pod.workers;
    if (view == nullptr) {
      count.ready += pod.ready ? pod.workers : 0;
      continue;
    }
    for (const ListedWorker& listed : draft->evidence.WorkersOf(pod)) {
      count.ready += Serves(listed.worker->state) ? 1 : 0;
    }
  }
  status.replicas = 0;
  status.readyReplicas = 0;
  for (const auto& [cluster, count] : counts) {
    status.replicas += count.replicas;
    status.readyReplicas += count.ready;
  }
  ReportClusters(counts, draft);
  RecordPlaces(draft);
}

void CountStages(const protocol::JobStatus& view, Draft* draft) {
  std::vector<api::StageStatus>& stages = draft->status().stages;
  stages.clear();
  for (const protocol::StageStatus& stage : view.stages) {
    if (stage.stage.value >= draft->job.spec.pipeline.stages) continue;
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
    const api::Training& training = draft->job.spec.training;
    status.progress.tokens = status.step * training.globalBatchSize * training.sequenceLength;
    // A trainer that has just taken over has seen no loss yet.
    if (std::isfinite(view.loss) && view.loss > 0) status.progress.loss = Rounded(view.loss, 4);
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

/// What is known while training goes on: the rate, and the time that is left at this rate.
void ReportRate(const protocol::JobStatus* view, Draft* draft) {
  api::ProgressStatus& progress = draft->status().progress;
  const bool ready = api::IsTrue(draft->status(), ConditionType::kReady);
  if (ready && view == nullptr) return;  // the trainer was not heard lately: as it was
  progress.tokensPerSecond = 0;
  progress.secondsLeft.reset();
  progress.timeLeft.clear();
  if (!ready) return;
  if (const double rate = view->tokens_per_second; std::isfinite(rate) && rate > 0) {
    progress.tokensPerSecond = static_cast<std::uint64_t>(std::llround(Rounded(rate, 3)));
  }
  constexpr double kSecondsMax = 1e9;
  if (const double left = view->seconds_left; left > 0 && left < kSecondsMax) {
    constexpr std::uint64_t kMinute = 60;
    auto whole = static_cast<std::uint64_t>(std::llround(left));
    if (whole > kMinute) whole = (whole + kMinute / 2) / kMinute * kMinute;
    progress.secondsLeft = whole;
    progress.timeLeft = ShortTime(static_cast<double>(whole));
  }
}

std::string StagesWithout(const std::vector<api::StageStatus>& stages) {
  std::string text;
  for (const api::StageStatus& stage : stages) {
    if (stage.ready == 0) text += (text.empty() ? "" : ", ") + std::to_string(stage.index);
  }
  return text;
}

/// Why the trainer does not run, with the words of the cluster. `pod` may be null.
std::string TrainerWaits(const ObservedPod* pod, const api::Trainer& trainer) {
  if (pod == nullptr) return "the trainer's pod is not running yet";
  const std::string words = WordsOfWait(*pod);
  if (IsUnschedulable(*pod)) {
    return "no node fits the trainer's pod " + pod->name +
           (trainer.allowSpot ? ""
                              : ", which keeps off spot nodes unless trainer.allowSpot is true") +
           ": " + words;
  }
  return "the trainer's pod is not running yet" +
         std::string(WaitsForImage(*pod) ? ": its image cannot be pulled" : "") +
         (words.empty() ? "" : ": " + words);
}

void SetReady(Draft* draft) {
  const auto set = [draft](ConditionStatus value, Reason reason, std::string message) {
    draft->Set(ConditionType::kReady, value, reason, std::move(message));
  };
  const api::SwarmJobStatus& status = draft->status();
  if (draft->finished())
    return set(ConditionStatus::kFalse, Reason::kFinished, "the job has finished");
  if (draft->hold) return set(ConditionStatus::kFalse, draft->hold->reason, draft->hold->words);
  const ObservedPod* trainer = FindTrainer(*draft);
  if (trainer == nullptr || trainer->end || trainer->phase != PodPhase::kRunning) {
    const bool unschedulable = trainer != nullptr && IsUnschedulable(*trainer);
    const bool pulls = trainer != nullptr && WaitsForImage(*trainer);
    return set(ConditionStatus::kFalse,
               unschedulable ? Reason::kTrainerUnschedulable
               : pulls       ? Reason::kImageNotAvailable
                             : Reason::kTrainerStarting,
               TrainerWaits(trainer, draft->job.spec.trainer));
  }
  const protocol::JobStatus* view = FreshView(draft->seen, kReportSeconds);
  if (view == nullptr) {
    // An operator that cannot reach the trainer leaves the condition as it was.
    if (api::FindCondition(status, ConditionType::kReady) == nullptr) {
      set(ConditionStatus::kFalse, Reason::kTrainerStarting,
          "the operator has not heard from the trainer yet");
    }
    return;
  }
  const std::string missing = StagesWithout(status.stages);
  if (view->stages.empty() || !missing.empty()) {
    const ObservedPod* first = FirstThatWaits(draft->seen, /*unbound=*/false);
    return set(ConditionStatus::kFalse,
               first != nullptr && WaitsForImage(*first) ? Reason::kImageNotAvailable
                                                         : Reason::kStagesMissing,
               (missing.empty() ? "no worker has joined yet"
                                : "without a ready worker: stage " + missing) +
                   (first == nullptr ? "" : "; " + first->name + ": " + WordsOfWait(*first)));
  }
  if (view->state != protocol::JobState::kTraining &&
      view->state != protocol::JobState::kFinishing) {
    return set(ConditionStatus::kFalse, Reason::kTrainerPrepares,
               "the trainer is " + std::string(NameOf(view->state)));
  }
  const std::string& one_region = view->balance.one_region;
  set(ConditionStatus::kTrue, Reason::kEveryStageReady,
      "every stage has a ready worker" + (one_region.empty() ? "" : "; " + one_region));
}

void SetOthers(Draft* draft) {
  const bool refused =
      draft->seen.refusal && (draft->seen.refusal->code == StatusCode::kInvalidArgument ||
                              draft->seen.refusal->code == StatusCode::kPermissionDenied);
  // While some pods of the job exist, a refused creation does not make the job unacceptable.
  if (refused && draft->seen.pods.empty() && !draft->finished()) {
    draft->Set(ConditionType::kAccepted, ConditionStatus::kFalse, Reason::kPodRefused,
               draft->seen.refusal->message);
  } else {
    draft->Set(ConditionType::kAccepted, ConditionStatus::kTrue, Reason::kValid,
               "the job can be run");
  }
  const auto default_to = [draft](ConditionType type, ConditionStatus value, Reason reason,
                                  const char* message) {
    if (api::FindCondition(draft->status(), type) == nullptr) {
      draft->Set(type, value, reason, message);
    }
  };
  default_to(ConditionType::kCapacityAvailable, ConditionStatus::kUnknown, Reason::kNotAsked,
             "no pod has waited for a node yet");
  default_to(ConditionType::kSuspended, ConditionStatus::kFalse, Reason::kNotSuspended,
             "spec.suspend is false");
  default_to(ConditionType::kSucceeded, ConditionStatus::kFalse, Reason::kNotFinished,
             "the job has not finished");
  default_to(ConditionType::kFailed, ConditionStatus::kFalse, Reason::kNotFinished,
             "the job has not finished");
}

JobState StateOf(const Draft& draft) {
  const api::SwarmJobStatus& status = draft.plan.status;
  if (api::IsTrue(status, ConditionType::kFailed)) return JobState::kFailed;
  if (api::IsTrue(status, ConditionType::kSucceeded)) return JobState::kSucceeded;
  if (api::IsTrue(status, ConditionType::kSuspended)) return JobState::kSuspended;
  if (draft.hold) return JobState::kSuspending;
  if (!api::IsTrue(status, ConditionType::kAccepted)) return JobState::kRejected;
  if (api::IsTrue(status, ConditionType::kReady)) return JobState::kRunning;
  const JobState before = draft.seen.job.status.state;
  if (before == JobState::kRunning || before == JobState::kRecovering) {
    return JobState::kRecovering;
  }
  const bool any_placed =
      std::any_of(draft.seen.pods.begin(), draft.seen.pods.end(),
                  [](const ObservedPod& pod) { return !pod.node.empty() && !pod.end; });
  return any_placed ? JobState::kStarting : JobState::kPending;
}

/// "stages 4, codec Int8, microbatchSize 2: 52000 tokens/s, limited by the devices of stage 1"
std::string ChoiceText(const api::PlanChoice& choice) {
  std::string text = "stages " + std::to_string(choice.stages);
  const auto add_name = [&](const char* what, const auto& value) {
    if (value) text += std::string(", ") + what + " " + std::string(NameOf(*value));
  };
  const auto add_number = [&](const char* what, const auto& value) {
    if (value) text += std::string(", ") + what + " " + std::to_string(*value);
  };
  add_name("codec", choice.codec);
  add_name("residency", choice.residency);
  add_name("stepMode", choice.stepMode);
  add_number("microbatchSize", choice.microbatchSize);
  add_number("inFlightMax", choice.inFlightMax);
  add_number("memory.device", choice.deviceMemory);
  add_number("replicas", choice.replicas);
  if (choice.tokensPerSecond) {
    text += ": about " + std::to_string(std::llround(*choice.tokensPerSecond)) +
            " tokens/s, limited by " + choice.limitedBy;
  }
  return text;
}

void ReportPlan(Draft* draft) {
  const api::Spec& spec = draft->job.spec;
  api::PlanStatus& plan = draft->status().plan;
  plan.replicas = spec.workers.replicas;
  plan.minReplicas = spec.workers.minReplicas;
  if (const auto layout = api::ComputeReplicas(draft->job, ""); layout.ok()) plan.layout = *layout;
  const auto& choice = draft->seen.job.choice;
  if (choice && choice != plan.choice) draft->Tell(Reason::kPlanned, ChoiceText(*choice));
  plan.choice = choice;
}

/// The status without progress, cost and the words of conditions, whose write may wait; with
/// `counts` also without counts.
api::SwarmJobStatus Without(api::SwarmJobStatus status, bool counts) {
  status.step = 0;
  status.progress = {};
  status.cost = {.dollarsPerHour = status.cost.dollarsPerHour};  // follows from the pods there are
  status.lastCheckpoint = {};
  for (api::Condition& condition : status.conditions) condition.message.clear();
  if (!counts) return status;
  status.cost = {};
  status.replicas = status.readyReplicas = 0;
  for (api::ClusterStatus& each : status.clusters) each.replicas = each.readyReplicas = 0;
  status.readyByCluster.clear();
  status.stages.clear();
  return status;
}

}  // namespace

void Report(Draft* draft) {
  api::SwarmJobStatus& status = draft->status();
  status.observedGeneration = draft->seen.job.generation;
  status.selector = names::WorkerSelector(draft->seen.job.name);
  ReportPlan(draft);
  status.parameters.reset();
  if (const api::DecoderConfig& config = draft->job.spec.model.config; config.hidden_size > 0) {
    status.parameters = api::ParameterCount(config);
  }
  CountWorkers(draft);
  if (draft->finished() || draft->hold) {
    for (api::StageStatus& stage : status.stages) stage.ready = 0;
  } else if (const protocol::JobStatus* view = FreshView(draft->seen, kReportSeconds)) {
    CountStages(*view, draft);
  }
  if (const protocol::JobStatus* view = FreshView(draft->seen, kReportSeconds)) {
    if (!api::IsTrue(status, ConditionType::kSucceeded)) ReportProgress(*view, draft);
  }
  SetOthers(draft);
  SetReady(draft);
  ReportRate(FreshView(draft->seen, kReportSeconds), draft);
  const api::SwarmJobStatus& before = draft->seen.job.status;
  if (status.step != before.step || status.progress != before.progress) {
    status.progress.time = draft->now();
  }
  ReportPrices(draft);
  status.state = StateOf(*draft);
}

Plan Reject(const Observed& observed) {
  Plan plan{.status = observed.job.status};
  api::SwarmJobStatus& status = plan.status;
  if (api::IsTrue(status, ConditionType::kSucceeded) || api::IsTrue(status, ConditionType::kFailed))
    return plan;
  std::string why;
  for (const std::string& reason : observed.job.refused) why += (why.empty() ? "" : "; ") + reason;
  status.observedGeneration = observed.job.generation;
  const auto set = [&](ConditionType type, ConditionStatus value, Reason reason,
                       const std::string& message) {
    api::SetCondition({std::string(NameOf(type)), value, observed.job.generation, observed.now,
                       std::string(NameOf(reason)), message},
                      &status);
  };
  const api::Condition* before = api::FindCondition(status, ConditionType::kAccepted);
  const bool known =
      before != nullptr && before->status == ConditionStatus::kFalse && before->message == why;
  if (!known) plan.events.push_back({.warning = true, .reason = Reason::kRejected, .message = why});
  set(ConditionType::kAccepted, ConditionStatus::kFalse, Reason::kInvalid, why);
  for (const auto& [type, name] : EnumNames<ConditionType>::kNames) {
    // Not every job has these.
    if (type == ConditionType::kAdmitted || type == ConditionType::kClustersConnected) continue;
    if (api::FindCondition(status, type) != nullptr) continue;
    set(type, ConditionStatus::kUnknown, Reason::kRejected, "the manifest is invalid");
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
