#include "operator/jobs_page/jobs_view.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "api/format/enum_names.h"
#include "operator/objects/read.h"

namespace swarm::jobs_page {
namespace {

using Json = nlohmann::json;
using api::ConditionStatus;
using api::ConditionType;
using api::JobState;

/// Its message, if the condition has this status.
std::string MessageIf(const api::SwarmJobStatus& status, ConditionType type,
                      ConditionStatus wanted) {
  const api::Condition* condition = api::FindCondition(status, type);
  return condition != nullptr && condition->status == wanted ? condition->message : "";
}

/// What the job waits for, or why it ended or may not begin, for people; often nothing. The trainer
/// knows more of training than the operator does, and the operator more of pods.
std::string WhyOf(const api::SwarmJobStatus& status, const protocol::JobStatus* told) {
  const std::string capacity =
      MessageIf(status, ConditionType::kCapacityAvailable, ConditionStatus::kFalse);
  switch (status.state) {
    case JobState::kRejected:
      return MessageIf(status, ConditionType::kAccepted, ConditionStatus::kFalse);
    case JobState::kFailed:
      return MessageIf(status, ConditionType::kFailed, ConditionStatus::kTrue);
    case JobState::kSuspended:
    case JobState::kSucceeded:
      return "";
    case JobState::kPending:
    case JobState::kStarting:
    case JobState::kRunning:
    case JobState::kRecovering:
    case JobState::kSuspending:
      break;
  }
  if (!capacity.empty()) return capacity;
  const std::string away =
      MessageIf(status, ConditionType::kClustersConnected, ConditionStatus::kFalse);
  if (!away.empty()) return away;
  if (told != nullptr && !told->message.empty()) return told->message;
  if (told != nullptr && !told->waiting_for.empty()) return "waits for " + told->waiting_for;
  return MessageIf(status, ConditionType::kReady, ConditionStatus::kFalse);
}

/// Ready and wanted workers of each stage.
Json StagesOf(const api::SwarmJobStatus& status) {
  Json stages = Json::array();
  for (std::size_t i = 0; i < status.plan.layout.size(); ++i) {
    const std::uint64_t ready = i < status.stages.size() ? status.stages[i].ready : 0;
    stages.push_back({{"ready", ready}, {"wanted", status.plan.layout[i]}});
  }
  return stages;
}

Json PositiveOrNull(double number) {
  return std::isfinite(number) && number > 0 ? Json(number) : Json(nullptr);
}

/// Whether a trainer's step and loss are those of the job: before, it has not read them yet.
bool Trains(const protocol::JobStatus& told) {
  return told.state == protocol::JobState::kTraining ||
         told.state == protocol::JobState::kFinishing ||
         told.state == protocol::JobState::kSucceeded;
}

/// The newer of what the object and the trainer say, and how old it is; null: of now, or nobody
/// knows.
void AddProgress(const api::SwarmJobStatus& status, const protocol::JobStatus* told,
                 api::WallTime now, Json* row) {
  const api::ProgressStatus& written = status.progress;
  (*row)["progressAgeSeconds"] = nullptr;
  if (written.time) {
    (*row)["progressAgeSeconds"] = std::max<std::int64_t>((now - *written.time).count(), 0);
  }
  (*row)["step"] = status.step;
  (*row)["loss"] = PositiveOrNull(written.loss.value_or(0));
  (*row)["tokensPerSecond"] = PositiveOrNull(static_cast<double>(written.tokensPerSecond));
  (*row)["secondsLeft"] = PositiveOrNull(static_cast<double>(written.secondsLeft.value_or(0)));
  if (told == nullptr || !Trains(*told)) return;
  (*row)["progressAgeSeconds"] = nullptr;
  (*row)["step"] = told->step.value;
  // A trainer that has just taken over has seen no loss yet.
  if (told->loss > 0) (*row)["loss"] = PositiveOrNull(told->loss);
  if (status.state != JobState::kRunning) return;
  (*row)["tokensPerSecond"] = PositiveOrNull(told->tokens_per_second);
  (*row)["secondsLeft"] = PositiveOrNull(told->seconds_left);
}

Json RowOf(const objects::JobView& job, const protocol::JobStatus* told, const JobsView& view) {
  const api::SwarmJobStatus& status = job.status;
  Json row{{"namespace", job.ns},
           {"name", job.name},
           {"state", NameOf(status.state)},
           {"why", WhyOf(status, told)},
           {"maxSteps", job.job.spec.training.maxSteps},
           {"ready", status.readyReplicas},
           {"wanted", status.plan.replicas},
           {"stages", StagesOf(status)},
           {"preemptions", status.preemptions},
           {"failures", status.failures},
           {"ageSeconds", std::max<std::int64_t>((view.now - job.creation_time).count(), 0)},
           {"trainer", !status.trainer.podName.empty()}};
  const bool has_page = view.opens && !status.trainer.podName.empty();
  row["page"] = has_page ? Json("/jobs/" + job.ns + "/" + job.name) : Json(nullptr);
  AddProgress(status, told, view.now, &row);
  return row;
}

}  // namespace

void AddJob(const Json& object, JobsView* view) {
  Result<objects::JobView> job = objects::ReadJob(object);
  if (job.ok()) return view->jobs.push_back(*std::move(job));
  const auto text_at = [&object](const char* path) {
    const Json found = object.value(Json::json_pointer(path), Json());
    return found.is_string() ? found.get<std::string>() : std::string();
  };
  view->unread.push_back(
      {text_at("/metadata/namespace"), text_at("/metadata/name"), job.status().message()});
}

std::string ToJson(const JobsView& view) {
  std::vector<Json> rows;
  for (const objects::JobView& job : view.jobs) {
    const auto told = view.told.find(job.uid);
    rows.push_back(RowOf(job, told == view.told.end() ? nullptr : &told->second, view));
  }
  for (const UnreadJob& job : view.unread) {
    rows.push_back(
        {{"namespace", job.ns}, {"name", job.name}, {"state", nullptr}, {"why", job.why}});
  }
  std::sort(rows.begin(), rows.end(), [](const Json& one, const Json& other) {
    const auto name_of = [](const Json& row) { return std::tie(row["namespace"], row["name"]); };
    return name_of(one) < name_of(other);
  });
  return Json{{"jobs", std::move(rows)}}.dump(-1, ' ', /*ensure_ascii=*/false,
                                              Json::error_handler_t::replace);
}

}  // namespace swarm::jobs_page
