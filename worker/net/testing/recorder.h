// For tests: a handler that keeps its calls and lets a test wait for them.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "worker/net/endpoint.h"

namespace swarm::net {

/// Thread-safe. Waits give up after a minute, so that a broken endpoint fails a test instead of
/// hanging it.
class Recorder final : public EndpointHandler {
 public:
  struct Arrival {
    WorkerId from;
    Lane lane;
    Envelope envelope;
  };

  /// Called for each message before it is kept, without a lock. Set it before any can arrive.
  std::function<void(const WorkerId&, Lane, const Envelope&)> on_message;

  void OnMessage(const WorkerId& from, Lane lane, Envelope envelope) override {
    if (on_message) on_message(from, lane, envelope);
    const std::lock_guard lock(mutex_);
    arrivals_.push_back({from, lane, std::move(envelope)});
    events_.push_back("message " + from.value);
    changed_.notify_all();
  }
  void OnPeerUp(const WorkerId& peer) override { Note("up " + peer.value); }
  void OnPeerDown(const WorkerId& peer, const Status& why) override {
    {
      const std::lock_guard lock(mutex_);
      last_reason_ = why;
    }
    Note("down " + peer.value);
  }

  /// Whether at least `count` messages have come.
  bool WaitForMessages(std::size_t count) {
    return Wait([&] { return arrivals_.size() >= count; });
  }
  /// Whether `event` ("up b", "down b") has come at least `count` times.
  bool WaitForEvent(const std::string& event, int count = 1) {
    return Wait([&] { return Count(event) >= count; });
  }
  int EventCount(const std::string& event) const {
    const std::lock_guard lock(mutex_);
    return Count(event);
  }
  std::vector<Arrival> arrivals() const {
    const std::lock_guard lock(mutex_);
    return arrivals_;
  }
  std::vector<std::string> events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  /// Drops the messages kept so far.
  void Forget() {
    std::vector<Arrival> dropped;
    const std::lock_guard lock(mutex_);
    dropped.swap(arrivals_);
  }
  Status last_reason() const {
    const std::lock_guard lock(mutex_);
    return last_reason_;
  }

 private:
  template <typename Condition>
  bool Wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), condition);
  }
  int Count(const std::string& event) const {
    return static_cast<int>(std::count(events_.begin(), events_.end(), event));
  }
  void Note(std::string event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Arrival> arrivals_;
  std::vector<std::string> events_;
  Status last_reason_;
};

}  // namespace swarm::net
