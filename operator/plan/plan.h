// The result of a decision about one job: actions, events, and the status to write. Plain values;
// decide.h computes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/reason.h"
#include "api/status.h"
#include "operator/plan/observed.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::plan {

/// Create or correct a child object.
struct ApplyChild {
  Child child;
  bool operator==(const ApplyChild&) const = default;
};

/// Create the trainer's pod of this term. If the pod exists and belongs to the job, that is
/// success. A plan has ApplyChild(kConfig) before it, because a trainer reads the manifest when it
/// starts.
struct CreateTrainer {
  std::uint64_t term = 0;
  std::vector<std::uint64_t> layout;  ///< replicas of each stage, for the flag --layout
  bool operator==(const CreateTrainer&) const = default;
};

/// Create the worker pod with this ordinal. If it exists and belongs to the job, that is success.
struct CreateWorker {
  std::uint64_t ordinal = 0;
  std::string pool;
  bool operator==(const CreateWorker&) const = default;
};

/// Delete a pod, with `uid` as the precondition. If it is gone already, that is success.
struct DeletePod {
  std::string name;
  std::string uid;
  /// None: as the pod's spec says. 0: no kubelet is left that could confirm the deletion.
  std::optional<std::uint64_t> grace_seconds;
  bool operator==(const DeletePod&) const = default;
};

/// Send orders to the trainer. Decisions repeat them until the trainer's view shows them; receiving
/// an order twice does no harm.
struct DirectTrainer {
  std::vector<std::string> drain;  ///< ids of the workers that must leave
  std::vector<protocol::StageMove> moves;
  protocol::Retired retired = {};  ///< default: the trainer knows who is gone
  bool operator==(const DirectTrainer&) const = default;
};

/// Write the number of workers into a manifest that leaves it open, so that `kubectl scale` and
/// autoscalers, which take 0 as "hands off", begin from it. Fails if the object has changed.
struct WriteReplicas {
  std::uint64_t replicas = 0;
  bool operator==(const WriteReplicas&) const = default;
};

/// Create the job's Workload, or make one without quota ask for the pods of the manifest.
struct WriteWorkload {
  bool operator==(const WriteWorkload&) const = default;
};

/// Delete the job's Workload, with its UID as the precondition. Its quota is free then.
struct DeleteWorkload {
  std::string uid;
  bool operator==(const DeleteWorkload&) const = default;
};

/// What a Workload's status says about its job.
enum class JobNews {
  kReady,    ///< every stage has a ready worker
  kStopped,  ///< after an eviction no pod is left: the quota is given back
  kSucceeded,
  kFailed,
};

/// Write it into the Workload's status, with its version as the precondition.
struct TellQueue {
  JobNews news = JobNews::kReady;
  std::string version;
  std::string words;
  bool operator==(const TellQueue&) const = default;
};

/// Delete the SwarmJob (ttlSecondsAfterFinished), with its UID as the precondition.
struct DeleteJob {
  bool operator==(const DeleteJob&) const = default;
};

using Action = std::variant<ApplyChild, CreateTrainer, CreateWorker, DeletePod, DirectTrainer,
                            WriteReplicas, WriteWorkload, DeleteWorkload, TellQueue, DeleteJob>;

/// An event about the SwarmJob, for people.
struct Event {
  bool warning = false;
  api::Reason reason = api::Reason::kValid;
  std::string message;
  bool operator==(const Event&) const = default;
};

/// Why a pod ended. The counters are in the status; the metrics count by role and cause.
enum class Cause { kPreempted, kFailed, kUnknown };

/// The end of one pod, reported once.
struct PodEnd {
  PodRole role = PodRole::kWorker;
  Cause cause = Cause::kUnknown;
  bool operator==(const PodEnd&) const = default;
};

/// When the status is written, relative to the actions.
enum class WriteStatus {
  kNo,
  kFirst,  ///< before: the actions follow only if this write succeeded (with resourceVersion)
  kLast,   ///< after the actions
};

struct Plan {
  WriteStatus write = WriteStatus::kNo;
  api::SwarmJobStatus status;  ///< to write; with kNo it differs from the observed one only in
                               ///< counts and progress
  /// In this order. The actions are independent: if one fails, the next ones are still carried out,
  /// except that no pod is created after a refused creation. The next decision sees the outcome.
  std::vector<Action> actions;
  std::vector<Event> events;  ///< published after the write succeeded
  std::vector<PodEnd> ends;   ///< the ends that this decision counts in `status`
  /// Decide again at this time, even if nothing changes. None: only when something changes.
  std::optional<WallTime> look_again;
};

}  // namespace swarm::plan
