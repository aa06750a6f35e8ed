#include "api/status.h"

#include <algorithm>

#include "api/format/enum_names.h"

namespace swarm::api {

const Condition* FindCondition(const SwarmJobStatus& status, ConditionType type) {
  const auto found = std::find_if(status.conditions.begin(), status.conditions.end(),
                                  [&](const Condition& each) { return each.type == NameOf(type); });
  return found == status.conditions.end() ? nullptr : &*found;
}

bool IsTrue(const SwarmJobStatus& status, ConditionType type) {
  const Condition* condition = FindCondition(status, type);
  return condition && condition->status == ConditionStatus::kTrue;
}

void SetCondition(const Condition& condition, SwarmJobStatus* status) {
  const auto place =
      std::find_if(status->conditions.begin(), status->conditions.end(),
                   [&](const Condition& each) { return each.type == condition.type; });
  if (place == status->conditions.end()) {
    status->conditions.push_back(condition);
    return;
  }
  const WallTime since =
      place->status == condition.status ? place->lastTransitionTime : condition.lastTransitionTime;
  *place = condition;
  place->lastTransitionTime = since;
}

}  // namespace swarm::api
