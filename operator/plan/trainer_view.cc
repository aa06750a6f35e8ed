#include "operator/plan/trainer_view.h"

namespace swarm::plan {

const protocol::JobStatus* FreshView(const Observed& observed, std::int64_t age) {
  if (!observed.trainer || observed.now - observed.trainer->heard > std::chrono::seconds(age)) {
    return nullptr;
  }
  const protocol::JobStatus& view = observed.trainer->status;
  const bool counts = view.term.value == observed.job.status.trainer.term;
  return counts && view.state != protocol::JobState::kSuperseded ? &view : nullptr;
}

}  // namespace swarm::plan
