#include "operator/plan/draft.h"

#include <algorithm>

namespace swarm::plan {

void Draft::LookAgain(WallTime time) {
  time = std::max(time, now() + std::chrono::seconds(1));
  if (!plan.look_again || time < *plan.look_again) plan.look_again = time;
}

void Draft::Tell(std::string reason, std::string message) {
  plan.events.push_back({.reason = std::move(reason), .message = std::move(message)});
}

void Draft::Warn(std::string reason, std::string message) {
  plan.events.push_back(
      {.warning = true, .reason = std::move(reason), .message = std::move(message)});
}

void Draft::Set(std::string_view type, api::ConditionStatus value, std::string reason,
                std::string message) {
  constexpr std::size_t kMessageMax = 1024;
  if (message.size() > kMessageMax) message = message.substr(0, kMessageMax - 3) + "...";
  api::SetCondition({.type = std::string(type),
                     .status = value,
                     .observedGeneration = seen.job.generation,
                     .lastTransitionTime = now(),
                     .reason = std::move(reason),
                     .message = std::move(message)},
                    &status());
}

void Draft::Finish() {
  if (!status().completionTime) status().completionTime = now();
  status().openWorkers.clear();
  status().pools.clear();
}

void Draft::Succeed() {
  Set(api::kSucceeded, api::ConditionStatus::kTrue, "Trained", "all steps are done");
  Tell("Succeeded", "all steps are done");
  status().step = std::max(status().step, job.spec.training.maxSteps);
  Finish();
}

void Draft::Fail(std::string reason, std::string message) {
  if (finished()) return;
  Warn(reason, message);
  Set(api::kFailed, api::ConditionStatus::kTrue, std::move(reason), std::move(message));
  Finish();
}

}  // namespace swarm::plan
