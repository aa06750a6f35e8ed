// Leader election: the operator that holds a coordination.k8s.io/v1 Lease works.
//
// A Lease is not a fence. A leader whose process was paused does not know that it has been
// replaced. So two leaders must be able to work at the same time: by resource versions,
// deterministic names, and the term, which the receivers of orders compare.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "operator/kube/client/client.h"
#include "operator/kube/timing/timing.h"

namespace swarm::kube {

/// The members of a Lease that matter here.
struct LeaseRecord {
  std::string holder;  ///< empty: no process holds the lease
  int lease_seconds = 0;
  std::string acquire_time;  ///< RFC 3339; for people
  std::string renew_time;
  std::int64_t transitions = 0;
  /// The term of the holder, or of the last one. It is an annotation, and never goes back, not even
  /// if the Lease is deleted; leaseTransitions would.
  std::int64_t term = 0;
  std::string resource_version;  ///< empty: the Lease does not exist
  bool operator==(const LeaseRecord&) const = default;
};

inline constexpr const char* kTermAnnotation = "swarmjob.dev/leader-term";

nlohmann::json ToLease(const ObjectName& name, const LeaseRecord& record);
/// Members that are missing or have another type are read as empty: a Lease may be made by hand.
LeaseRecord FromLease(const nlohmann::json& lease);

/// The term of a leader that begins now, where `last` is the last known term (0: none). It is above
/// every earlier term, also if the Lease, which had the last one, was deleted, or is not used at
/// all: all terms are Unix times, or counted on from one. This assumes that the clocks of machines
/// differ by less than the time between two leaders.
std::int64_t NextTerm(std::int64_t last, WallTime wall);

struct ElectionOptions {
  ObjectName lease;
  std::string identity;  ///< unique among all processes, past ones included; see MakeIdentity
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);  ///< less than lease_duration
  Duration retry_period = std::chrono::seconds(2);
};

/// The rules of the election. Not thread-safe; time is a parameter. They do not use the clocks of
/// other machines: a lease is over when this process has seen it unchanged for the duration of the
/// lease.
class ElectionRules {
 public:
  explicit ElectionRules(const ElectionOptions& options) : options_(options) {}

  /// The Lease was read; a default record if it does not exist.
  void OnRead(const LeaseRecord& record, Timepoint now);
  /// The server accepted the result of Wish. `began` is when the request was sent. The lease lasts
  /// from then on, not from the answer.
  void OnWritten(const LeaseRecord& record, Timepoint began);

  /// The record to write now, to take or to keep the lease. None: another process holds it.
  std::optional<LeaseRecord> Wish(Timepoint now, WallTime wall) const;
  /// The record to write when the leader ends in order, so that the lease is free at once.
  LeaseRecord Release(WallTime wall) const;

  bool leading() const { return leading_since_term_ > 0; }
  std::int64_t term() const { return leading_since_term_; }
  /// When a leader that cannot renew the lease must have stopped.
  Timepoint renew_by() const { return renewed_at_ + options_.renew_deadline; }
  /// Whether the leadership is lost: it could not be renewed, or another process took the lease.
  bool IsLost(Timepoint now) const;

 private:
  const ElectionOptions options_;
  LeaseRecord record_;
  Timepoint changed_at_{};  // when this process first saw record_
  std::int64_t leading_since_term_ = 0;
  Timepoint renewed_at_{};
};

struct ElectionCallbacks {
  std::function<void(std::int64_t term)> on_started;  ///< this process leads; must return soon
  /// The leadership is lost. Must end the process, because any thread may still work as the leader.
  std::function<void()> on_lost;
};

/// Owns one thread. The callbacks run on it.
class Elector {
 public:
  /// `client` and `timing` must outlive this. Use a client for the election alone, so that other
  /// requests do not use up the rate that renewals need.
  Elector(Client& client, const ElectionOptions& options, ElectionCallbacks callbacks,
          Timing& timing);
  /// Stops. A leader releases the lease, so that another process need not wait for its end.
  ~Elector();
  Elector(const Elector&) = delete;
  Elector& operator=(const Elector&) = delete;

  void Start();
  /// Ends the thread, as the destructor does. Does not call on_lost.
  void Stop();
  bool leading() const { return leading_; }

 private:
  void Run(std::stop_token stop);
  Status Try();
  Status Read();
  Status Write(const LeaseRecord& record);
  Duration RequestTimeout() const;
  void Release();

  Client& client_;
  const ElectionOptions options_;
  const ElectionCallbacks callbacks_;
  Timing& timing_;
  ElectionRules rules_;  // of the thread
  bool failing_ = false;
  std::atomic<bool> leading_{false};
  std::jthread thread_;  // last: ends first
};

/// HOST_UUID. So a new process is a new candidate, also on the same host.
std::string MakeIdentity();

}  // namespace swarm::kube
