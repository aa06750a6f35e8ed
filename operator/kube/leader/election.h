// Which of several operators works: the holder of a coordination.k8s.io/v1 Lease.
//
// A Lease is no fence. A leader that was stopped for a while does not know yet that it has been
// replaced, so all it does must be safe beside a second one: resource versions, deterministic
// names, and the term, which whoever takes orders can compare.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "operator/kube/client/client.h"
#include "operator/kube/transport/timing.h"

namespace swarm::kube {

/// What a Lease says, so far as it matters.
struct LeaseRecord {
  std::string holder;  ///< empty: free
  int lease_seconds = 0;
  std::string acquire_time;  ///< RFC 3339; for people
  std::string renew_time;
  std::int64_t transitions = 0;
  /// Of the holder, or of the last one. In an annotation: it never goes back, not even if the Lease
  /// is deleted, which leaseTransitions would.
  std::int64_t term = 0;
  std::string resource_version;  ///< empty: there is no such Lease
  bool operator==(const LeaseRecord&) const = default;
};

inline constexpr const char* kTermAnnotation = "swarmjob.dev/leader-term";

nlohmann::json ToLease(const ObjectName& name, const LeaseRecord& record);
/// What is missing or of another type reads as empty, as a Lease made by hand may be.
LeaseRecord FromLease(const nlohmann::json& lease);

struct ElectionOptions {
  ObjectName lease;
  std::string identity;  ///< unique among all processes there ever were; see MakeIdentity
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);  ///< less than lease_duration
  Duration retry_period = std::chrono::seconds(2);
};

/// The decisions. Not thread-safe; time is a value. Times of other machines are never looked at: a
/// lease is over when *we* have seen it unchanged for as long as it is to last.
class ElectionRules {
 public:
  explicit ElectionRules(const ElectionOptions& options) : options_(options) {}

  /// The Lease as it is; a default record if there is none.
  void OnRead(const LeaseRecord& record, Timepoint now);
  /// The server has taken what Wish gave. `began` is when the request was sent: from then on, and
  /// not from the answer, the lease lasts.
  void OnWritten(const LeaseRecord& record, Timepoint began);

  /// What to write now: to take the lease, or to keep it. None: it is another's, and not over.
  std::optional<LeaseRecord> Wish(Timepoint now, WallTime wall) const;
  /// What to write when the leader ends in order: the lease is free at once.
  LeaseRecord Release(WallTime wall) const;

  bool leading() const { return leading_since_term_ > 0; }
  std::int64_t term() const { return leading_since_term_; }
  /// When a leader that could not renew must have stopped.
  Timepoint renew_by() const { return renewed_at_ + options_.renew_deadline; }
  /// Whether a leader is one no more: it could not renew, or another took the lease.
  bool IsLost(Timepoint now) const;

 private:
  const ElectionOptions options_;
  LeaseRecord record_;
  Timepoint changed_at_{};  // when we saw record_ for the first time
  std::int64_t leading_since_term_ = 0;
  Timepoint renewed_at_{};
};

struct ElectionCallbacks {
  std::function<void(std::int64_t term)> on_started;  ///< we lead; must return soon
  /// We lead no more. Must end the process: work of a former leader may be under way on any thread.
  std::function<void()> on_lost;
};

/// Owns one thread. The callbacks run on it.
class Elector {
 public:
  /// `client` and `timing` must outlive this. The client should be one of its own: others must not
  /// use up the rate that renewals need.
  Elector(Client& client, const ElectionOptions& options, ElectionCallbacks callbacks,
          Timing& timing);
  /// Stops; a leader gives the lease back, so that another need not wait for its end.
  ~Elector();
  Elector(const Elector&) = delete;
  Elector& operator=(const Elector&) = delete;

  void Start();
  /// Ends the thread, as the destructor does. on_lost is not called for this.
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

/// HOST_UUID, as is the custom: a new process is another candidate, also on the same host.
std::string MakeIdentity();

}  // namespace swarm::kube
