// A plan in the making. The parts of a decision (trainer.h, workers.h, ...) add to it in turn.
#pragma once

#include <optional>
#include <string>

#include "operator/plan/evidence.h"
#include "operator/plan/plan.h"

namespace swarm::plan {

/// Why the job has no pods now, or must give up those that it has.
struct Hold {
  api::Reason reason = api::Reason::kSuspended;
  std::string words;
};

struct Draft {
  const Observed& seen;
  const Evidence evidence;
  const api::SwarmJob& job;
  Plan plan;
  std::optional<Hold> hold;  ///< none: the job shall have pods

  /// Requires: seen.job.job. `observed` must outlive the draft.
  explicit Draft(const Observed& observed)
      : seen(observed),
        evidence(observed),
        job(*observed.job.job),
        plan{.status = observed.job.status} {}

  WallTime now() const { return seen.now; }
  api::SwarmJobStatus& status() { return plan.status; }
  bool finished() const {
    return api::IsTrue(plan.status, api::ConditionType::kSucceeded) ||
           api::IsTrue(plan.status, api::ConditionType::kFailed);
  }

  /// Asks for the next decision at this time, or earlier if another part asked for that.
  void LookAgain(WallTime time);
  /// Adds a normal event.
  void Tell(api::Reason reason, std::string message);
  /// Adds a warning.
  void Warn(api::Reason reason, std::string message);
  /// Sets a condition for this generation. A message longer than 1 KiB is cut.
  void Set(api::ConditionType type, api::ConditionStatus value, api::Reason reason,
           std::string message);
  /// The job has finished: all its pods go, except those kept for their logs.
  void Succeed();
  void Fail(api::Reason reason, std::string message);

 private:
  void Finish();
};

/// Whether the pods of a held job are on their way out, or are gone.
bool IsHeld(const api::SwarmJobStatus& status);

}  // namespace swarm::plan
