// Sends the same text to several viewers, each of which reads at its own speed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"

namespace swarm::web {

struct BroadcastLimits {
  std::size_t viewers = 16;
  std::size_t waiting_bytes = 2u << 20;  ///< for each viewer
};

/// Thread-safe. Nobody waits for a viewer: one for whom more waits than may be is dropped.
class Broadcast {
 public:
  /// While it lives, it counts as a viewer. It may outlive the Broadcast.
  class Viewer;

  explicit Broadcast(const BroadcastLimits& limits) : shared_(std::make_shared<Shared>(limits)) {}
  /// As Close.
  ~Broadcast() { Close(); }
  Broadcast(const Broadcast&) = delete;
  Broadcast& operator=(const Broadcast&) = delete;

  /// A viewer that gets `first`, and what is sent after it. Null: there are as many viewers as may
  /// be, or the end has come.
  std::shared_ptr<Viewer> Join(std::string first);
  void Send(std::string text);
  std::size_t viewers() const;
  /// The end: viewers get what waits for them, and then nothing more.
  void Close();

 private:
  struct Shared {
    explicit Shared(const BroadcastLimits& limits) : limits(limits) {}
    const BroadcastLimits limits;
    std::mutex mutex;
    std::condition_variable news;
    std::set<Viewer*> viewers;  // guarded, as all below
    bool closed = false;
  };

  const std::shared_ptr<Shared> shared_;
};

class Broadcast::Viewer {
 public:
  Viewer(std::shared_ptr<Shared> shared, std::string first);
  ~Viewer();
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;

  /// The next text, as soon as there is one; empty if none has come within `limit`. Nothing: the
  /// viewer is dropped, or has everything and the end has come.
  std::optional<std::string> Take(Duration limit);

 private:
  friend class Broadcast;
  const std::shared_ptr<Shared> shared_;
  std::deque<std::shared_ptr<const std::string>> waiting_;  // guarded by shared_->mutex
  std::size_t bytes_ = 0;                                   // of waiting_
  bool dropped_ = false;
};

}  // namespace swarm::web
