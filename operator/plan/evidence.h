// Why a pod ends, told from evidence: a preemption by the infrastructure is never charged to the
// failure policy, and neither is an end that nobody can explain. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/plan/observed.h"
#include "operator/plan/plan.h"

namespace swarm::plan {

/// What a pod is good for now.
enum class Health {
  kLives,    ///< runs, or will
  kMissing,  ///< the trainer has lost it and Kubernetes has not said why yet: replaced, not judged
  kDone,     ///< its program has ended as it should
  kEnds,     ///< it has ended, or will shortly: `cause` says why
};

struct Judgement {
  Health health = Health::kLives;
  Cause cause = Cause::kUnknown;  ///< with kEnds
  std::string words;              ///< why, for people: "its node a is about to be taken (TAINT)"
  /// CamelCase; not empty: trying again cannot mend it, so the job fails. With kEnds.
  std::string fatal;
  /// The end came so fast, or for such a reason, that the next try must wait. With kEnds.
  bool hold_back = false;
  std::optional<WallTime> look_again;  ///< when time alone may change this judgement
};

/// A node's notice that it will be taken, or has been, in words; empty: none. Notices are taints of
/// the termination handlers and autoscalers, conditions that clouds set, and the kubelet's word.
std::string NoticeOf(const ObservedNode& node);

/// Judges a pod by all that is known: itself, its node, and the trainer. A preemption goes before a
/// failure, a failure before the unknown.
Judgement JudgePod(const Observed& observed, const ObservedPod& pod);

/// Judges the end of a program by itself alone: by its exit code (worker's table), signal and last
/// words. Never kPreempted: that takes evidence from outside.
Judgement JudgeExit(const ContainerEnd& end);

/// The trainer's view, if it is of the trainer that counts now and no older than `age` seconds.
const protocol::JobStatus* FreshView(const Observed& observed, std::int64_t age);
/// How old a word of the trainer may be to say that a worker lives.
inline constexpr std::int64_t kViewSeconds = 15;

/// What the trainer says of a worker; null: it does not list it.
const protocol::StageStatus::Worker* FindWorker(const protocol::JobStatus& view,
                                                const std::string& id);

}  // namespace swarm::plan
