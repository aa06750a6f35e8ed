#include "operator/plan/draft.h"

#include <algorithm>

#include "api/format/enum_names.h"

namespace swarm::plan {

void Draft::LookAgain(WallTime time) {
  time = std::max(time, now() + std::chrono::seconds(1));
  if (!plan.look_again || time < *plan.look_again) plan.look_again = time;
}

void Draft::Tell(api::Reason reason, std::string message) {
  plan.events.push_back({.reason = reason, .message = std::move(message)});
}

void Draft::Warn(api::Reason reason, std::string message) {
  plan.events.push_back({.warning = true, .reason = reason, .message = std::move(message)});
}

void Draft::Set(api::ConditionType type, api::ConditionStatus value, api::Reason reason,
                std::string message) {
  constexpr std::size_t kMessageMax = 1024;
  if (message.size() > kMessageMax) message = message.substr(0, kMessageMax - 3) + "...";
  api::SetCondition({.type = std::string(NameOf(type)),
                     .status = value,
                     .observedGeneration = seen.job.generation,
                     .lastTransitionTime = now(),
                     .reason = std::string(NameOf(reason)),
                     .message = std::move(message)},
                    &status());
}

void Draft::Finish() {
  if (!status().completionTime) status().completionTime = now();
  status().openWorkers.clear();
  status().pools.clear();
}

void Draft::Succeed() {
  Set(api::ConditionType::kSucceeded, api::ConditionStatus::kTrue, api::Reason::kTrained,
      "all steps are done");
  Tell(api::Reason::kSucceeded, "all steps are done");
  status().step = std::max(status().step, job.spec.training.maxSteps);
  Finish();
}

void Draft::Fail(api::Reason reason, std::string message) {
  if (finished()) return;
  Warn(reason, message);
  Set(api::ConditionType::kFailed, api::ConditionStatus::kTrue, reason, std::move(message));
  Finish();
}

bool IsHeld(const api::SwarmJobStatus& status) {
  const api::Condition* suspended = api::FindCondition(status, api::ConditionType::kSuspended);
  return suspended != nullptr && (suspended->status == api::ConditionStatus::kTrue ||
                                  suspended->reason == NameOf(api::Reason::kSuspending));
}

}  // namespace swarm::plan
