// The connections to the trainers: for each running job one connection, as an observer.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/identity/pem.h"
#include "base/status.h"
#include "base/time.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::controller {

/// The address of a job's trainer, and the identity to use with it.
struct TrainerAddress {
  std::string job_uid;
  std::string dial;  ///< host:port
  std::string ca;    ///< PEM
  identity::KeyPair self;
  bool operator==(const TrainerAddress&) const = default;
};

/// One connection, which reconnects by itself. Thread-safe.
///
/// An interface, because the tests of this folder play the trainer without a network. Production
/// has one implementation (trainer_dialer.cc).
class TrainerConnection {
 public:
  virtual ~TrainerConnection() = default;
  /// The newest status that was not taken yet. Does not block.
  virtual std::optional<protocol::JobStatus> Take() = 0;
  /// Does not block. Errors: kUnavailable, there is no connection now.
  virtual Status Send(protocol::Direct direct) = 0;
};

/// What is known of a trainer at a time.
struct TrainerView {
  std::optional<protocol::JobStatus> status;  ///< the last status; none: it has never sent one
  Timepoint heard{};                          ///< when `status` arrived
  Timepoint wanted_since{};                   ///< when this connection was first wanted
};

/// Thread-safe. One thread polls all connections.
class TrainerLinks {
 public:
  using Connect =
      std::function<Result<std::unique_ptr<TrainerConnection>>(const TrainerAddress& address)>;
  /// Something that affects decisions has changed: the workers, the departures, the state; not the
  /// step alone. Called on the thread of the links; must not block.
  using OnChange = std::function<void(const std::string& job)>;

  TrainerLinks(Connect connect, OnChange on_change,
               Duration interval = std::chrono::milliseconds(500));
  /// Closes all connections.
  ~TrainerLinks();

  /// Connects to the trainer of `job` (its key), unless there is a connection already. A new
  /// address means a new trainer, so the status of the old one is forgotten.
  void Want(const std::string& job, const TrainerAddress& address);
  void Forget(const std::string& job);
  /// None: the connection is not wanted.
  std::optional<TrainerView> View(const std::string& job) const;
  /// Sends an order to the trainer of `job`. Errors: kUnavailable, there is no connection now.
  Status Send(const std::string& job, protocol::Direct direct);
  std::size_t count() const;

 private:
  struct Link;

  void Run();
  void Look(const std::string& job, Link& link);

  const Connect connect_;
  const OnChange on_change_;
  const Duration interval_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;                               // guarded
  std::map<std::string, std::shared_ptr<Link>> links_;  // guarded, and so are views
  std::thread thread_;
};

/// Whether two statuses differ in something that affects decisions.
bool DiffersForDecisions(const protocol::JobStatus& one, const protocol::JobStatus& other);

}  // namespace swarm::controller
