// What the trainers say: one observer's connection to the trainer of each running job.
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
#include "worker/protocol/messages/message.h"

namespace swarm::controller {

/// Where a job's trainer is, and as whom to talk to it.
struct TrainerAddress {
  std::string job_uid;
  std::string dial;  ///< host:port
  std::string ca;    ///< PEM
  identity::KeyPair self;
  bool operator==(const TrainerAddress&) const = default;
};

/// One connection, which is re-opened as long as it lives. Thread-safe.
class TrainerConnection {
 public:
  virtual ~TrainerConnection() = default;
  /// The newest status that was not taken yet. Never blocks.
  virtual std::optional<protocol::JobStatus> Take() = 0;
  /// Never blocks. Errors: kUnavailable (not connected now).
  virtual Status Send(protocol::Direct direct) = 0;
};

/// What is known of a trainer at a moment.
struct TrainerView {
  std::optional<protocol::JobStatus> status;  ///< the last word; none: it has never answered
  Timepoint heard{};                          ///< when that came
  Timepoint wanted_since{};                   ///< when this connection was first wanted
};

/// Thread-safe. One thread looks at all connections.
class TrainerLinks {
 public:
  using Connect =
      std::function<Result<std::unique_ptr<TrainerConnection>>(const TrainerAddress& address)>;
  /// Something that a decision may hang on has changed: who serves, what was lost, the state; not
  /// the step alone. Called on the thread of the links; must not block.
  using OnChange = std::function<void(const std::string& job)>;

  TrainerLinks(Connect connect, OnChange on_change,
               Duration interval = std::chrono::milliseconds(500));
  /// Closes all connections.
  ~TrainerLinks();

  /// Connects to the trainer of `job` (its key), unless that is so already. Another address is
  /// another trainer: what the old one said is forgotten.
  void Want(const std::string& job, const TrainerAddress& address);
  void Forget(const std::string& job);
  /// None if the connection is not wanted.
  std::optional<TrainerView> View(const std::string& job) const;
  /// Tells the trainer of `job`. Errors: kUnavailable (no connection now).
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

/// Whether two statuses differ in what a decision may hang on.
bool DiffersForDecisions(const protocol::JobStatus& one, const protocol::JobStatus& other);

}  // namespace swarm::controller
