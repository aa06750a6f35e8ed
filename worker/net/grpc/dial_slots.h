// How many connections a process makes at once. A connection takes milliseconds of processor time
// at both ends. If a thousand are begun at once, all progress together, and none is complete before
// the deadline of its dial. So they take turns, and a dial's time begins with its turn.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace swarm::net {

/// Thread-safe. Endpoints of a process may share it.
class DialSlots : public std::enable_shared_from_this<DialSlots> {
 public:
  explicit DialSlots(std::size_t count) : free_(count) {}

  /// One dial under way. Whoever holds the last reference ends it.
  using Slot = std::shared_ptr<void>;
  /// Calls `begin` with a slot: at once, or later on the thread that gives one back.
  void Take(std::function<void(Slot)> begin) {
    {
      const std::lock_guard lock(mutex_);
      if (free_ == 0) return waiting_.push_back(std::move(begin));
      --free_;
    }
    begin(MakeSlot());
  }

 private:
  Slot MakeSlot() {
    return Slot(nullptr, [slots = shared_from_this()](void*) { slots->Return(); });
  }
  void Return() {
    std::function<void(Slot)> begin;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) {
        ++free_;
        return;
      }
      begin = std::move(waiting_.front());
      waiting_.pop_front();
    }
    begin(MakeSlot());
  }

  std::mutex mutex_;
  std::size_t free_;                                // guarded
  std::deque<std::function<void(Slot)>> waiting_;  // guarded
};

}  // namespace swarm::net
