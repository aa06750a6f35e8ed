// Whether a pod lives, has ended, or is about to end, and why. Judged from evidence: the failure
// policy is never charged for a preemption by the infrastructure, nor for an end without evidence.
// Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/plan/evidence.h"
#include "operator/plan/plan.h"

namespace swarm::plan {

enum class Health {
  kLives,    ///< the pod runs, or will run
  kMissing,  ///< the trainer has lost the worker, and Kubernetes has not said why yet: it is
             ///< replaced, and its end is not counted yet
  kDone,     ///< the program ended with success
  kEnds,     ///< the pod has ended, or will end shortly; `cause` says why
};

struct Judgement {
  Health health = Health::kLives;
  Cause cause = Cause::kUnknown;  ///< with kEnds
  std::string words;              ///< why, for people: "its node a is going away: ..."
  /// With kEnds: a new try cannot help, so the job fails for this reason. Never of a role that has
  /// run (HasRunStatus): the manifest was right once, so the reason lies elsewhere and may pass.
  std::optional<api::Reason> fatal;
  /// With kEnds: the pod ended so early, or for such a reason, that its successor must wait.
  bool hold_back = false;
  /// With kEnds, for failures and early ends: the node that may be to blame.
  std::string node;
  bool node_unfit = false;             ///< no container of the job can start on that node
  std::optional<WallTime> look_again;  ///< when time alone may change this judgement
};

/// Judges a pod by everything the operator knows: the pod, its node, and the trainer's view. A
/// preemption takes precedence over a failure, and a failure over an unknown cause.
Judgement JudgePod(const Evidence& evidence, const ObservedPod& pod);

/// Judges the end of a program alone, by its exit code (base/exit.h), signal and last message. The
/// cause is never kPreempted, because that needs evidence from outside the program.
Judgement JudgeExit(const ContainerEnd& end);

}  // namespace swarm::plan
