// The decisions of the operator: what one job needs now. Pure and deterministic: equal values in,
// equal values out; time is one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/status.h"
#include "operator/plan/observed.h"
#include "worker/protocol/messages/message.h"

namespace swarm::plan {

/// Make a child as it should be.
struct ApplyChild {
  Child child;
  bool operator==(const ApplyChild&) const = default;
};

/// Create the pod JOB-trainer-TERM. One of this name that is there and ours is success. Before it,
/// a plan has ApplyChild(kConfig): a trainer begins with the manifest of its time.
struct CreateTrainer {
  std::uint64_t term = 0;
  std::vector<std::uint64_t> layout;  ///< replicas of each stage, its --layout
  bool operator==(const CreateTrainer&) const = default;
};

/// Create the pod JOB-wORDINAL. One of this name that is there and ours is success.
struct CreateWorker {
  std::uint64_t ordinal = 0;
  std::string pool;
  bool operator==(const CreateWorker&) const = default;
};

/// Delete a pod, with `uid` as the precondition. One that is gone is success.
struct DeletePod {
  std::string name;
  std::string uid;
  std::optional<std::uint64_t> grace_seconds;  ///< none: as its spec says; 0: nobody will confirm
  bool operator==(const DeletePod&) const = default;
};

/// Send to the trainer. Repeated until the trainer's view shows it; does no harm twice.
struct DirectTrainer {
  std::vector<std::string> drain;  ///< workers' ids
  std::vector<protocol::StageMove> moves;
  bool operator==(const DirectTrainer&) const = default;
};

/// Delete the SwarmJob (ttlSecondsAfterFinished), with its UID as the precondition.
struct DeleteJob {
  bool operator==(const DeleteJob&) const = default;
};

using Action =
    std::variant<ApplyChild, CreateTrainer, CreateWorker, DeletePod, DirectTrainer, DeleteJob>;

/// For people, about the SwarmJob.
struct Event {
  bool warning = false;
  std::string reason;  ///< CamelCase, stable
  std::string message;
  bool operator==(const Event&) const = default;
};

/// Why a pod is no more, once per pod; for metrics. The counters are in the status.
enum class Cause { kPreempted, kFailed, kUnknown };
struct PodEnd {
  PodRole role = PodRole::kWorker;
  Cause cause = Cause::kUnknown;
  bool operator==(const PodEnd&) const = default;
};

enum class WriteStatus {
  kNo,
  kFirst,  ///< reserve: the actions only if this write succeeded (with resourceVersion)
  kLast,   ///< report: after the actions
};

struct Plan {
  WriteStatus write = WriteStatus::kNo;
  api::SwarmJobStatus status;  ///< to write; equals the observed one with kNo, but for progress
  /// In this order. Each one stands for itself: where one fails the next ones go on (but creations
  /// once one was refused), and the next decision sees what came of it.
  std::vector<Action> actions;
  std::vector<Event> events;  ///< to publish once the write has succeeded
  std::vector<PodEnd> ends;   ///< counted in `status` by this decision
  /// Decide again by then, even if nothing changes; none: only when something does.
  std::optional<WallTime> look_again;
};

/// What is to be done about the job. Decided upon the outcome of its own actions it does nothing,
/// and nothing when nothing has changed but the trainer's progress within a minute. Of two
/// operators that overlap, one fails to reserve.
Plan Decide(const Observed& observed);

/// The name of a pod: JOB-wN, JOB-trainer-N.
std::string PodName(const std::string& job, PodRole role, std::uint64_t number);

/// Seconds from a worker's SIGTERM to its SIGKILL: drainSeconds and a little.
std::uint64_t WorkerGraceSeconds(const api::Spec& spec);
inline constexpr std::uint64_t kTrainerGraceSeconds = 60;

}  // namespace swarm::plan
