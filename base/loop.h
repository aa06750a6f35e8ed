// One thread and its queue of closures. A stateful object is owned by exactly one Loop; other
// threads post closures to that loop, so the object needs no lock.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/time.h"
#include "base/virtual_time.h"

namespace swarm {

/// Runs posted closures one after the other on a thread of its own, or as an actor of VirtualTime.
///
/// The queue has a bound: Post blocks the caller while `capacity` closures wait, unless the caller
/// is the loop itself (which would wait for itself). Closures posted after Stop are dropped.
class Loop {
 public:
  /// `on_idle`, if any, runs on the loop's thread whenever the queue has become empty after work.
  /// Callers use it to send what they have gathered meanwhile.
  explicit Loop(std::string name, std::function<void()> on_idle = nullptr,
                std::size_t capacity = 65536);
  /// Stops and joins.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Runs `work` on the loop's thread, in the order of posting. From any thread.
  void Post(std::function<void()> work);
  /// Runs `work` on the loop's thread at `when` or soon after. From any thread.
  void PostAt(Timepoint when, std::function<void()> work);
  /// Runs the queue (under VirtualTime drops it, as a crash does), drops timed closures, joins the
  /// thread. Not from the loop's own thread.
  void Stop();
  bool InLoop() const {
    return actor_ ? actor_->running() : std::this_thread::get_id() == thread_.get_id();
  }
  /// Closures that wait now.
  std::size_t depth() const;

 private:
  void Run();
  /// Does the next piece of work. False: there is none yet.
  bool RunOne(std::unique_lock<std::mutex>& lock);
  void Notify(Timepoint when);

  const std::string name_;
  const std::function<void()> on_idle_;
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable space_;
  std::deque<std::function<void()>> queue_;
  std::multimap<Timepoint, std::function<void()>> timed_;
  bool stopping_ = false;
  bool worked_ = false;  // since on_idle_ ran
  std::optional<VirtualTime::Actor> actor_;
  std::thread thread_;  // last: starts when all else exists
};

}  // namespace swarm
