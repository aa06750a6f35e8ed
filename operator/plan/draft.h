// A decision while it is made. Its parts (trainer.h, workers.h, ...) write into it in turn.
#pragma once

#include <string>
#include <string_view>

#include "operator/plan/plan.h"

namespace swarm::plan {

struct Draft {
  const Observed& seen;
  const api::SwarmJob& job;
  Plan plan;

  /// Requires: seen.job.job, which must outlive the draft.
  explicit Draft(const Observed& observed)
      : seen(observed), job(*observed.job.job), plan{.status = observed.job.status} {}

  WallTime now() const { return seen.now; }
  api::SwarmJobStatus& status() { return plan.status; }
  bool finished() const {
    return api::IsTrue(plan.status, api::kSucceeded) || api::IsTrue(plan.status, api::kFailed);
  }

  void LookAgain(WallTime time);
  void Tell(std::string reason, std::string message);
  void Warn(std::string reason, std::string message);
  /// Sets a condition, as of this generation. A message longer than 1 KiB is cut.
  void Set(std::string_view type, api::ConditionStatus value, std::string reason,
           std::string message);
  /// The job is over: everything but its logs goes.
  void Succeed();
  void Fail(std::string reason, std::string message);

 private:
  void Finish();
};

}  // namespace swarm::plan
