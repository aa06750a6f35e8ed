// Messages on their way to peers that cannot take them yet: a connection that is still being
// opened, or a send window that is full. Keeps the order of each (peer, lane), and tries waiting
// messages again every millisecond. Not thread-safe: owned by a Loop.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "base/loop.h"
#include "worker/net/endpoint.h"

namespace swarm::net {

class Outbox {
 public:
  /// Used on `loop` alone. Both outlive it, or the loop stops before it ends.
  Outbox(Endpoint* endpoint, Loop* loop) : endpoint_(endpoint), loop_(loop) {}

  /// Sends now, or keeps the message until it can be sent. Returns an error for a message that can
  /// never be sent (above the cap).
  Status Send(const WorkerId& to, Lane lane, Envelope envelope) {
    auto& queue = waiting_[{to, lane}];
    if (queue.empty()) {
      // The endpoint takes the envelope only when it queues it, so a copy of handles is kept.
      const Status status = endpoint_->Send(to, lane, envelope);
      if (status.ok()) return status;
      if (!WorthWaiting(status)) return status;
    }
    bytes_ += envelope.payload.size();
    queue.push_back(std::move(envelope));
    ++count_;
    ScheduleFlush();
    return Status();
  }

  /// Tries the waiting messages again.
  void Flush() {
    for (auto& [key, queue] : waiting_) {
      while (!queue.empty()) {
        const Status status = endpoint_->Send(key.first, key.second, queue.front());
        if (WorthWaiting(status)) break;
        bytes_ -= queue.front().payload.size();
        queue.pop_front();
        --count_;
      }
    }
    if (count_ > 0) ScheduleFlush();
  }

  /// Forgets the messages that wait for a peer that is gone.
  void Forget(const WorkerId& peer) {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->first.first == peer) {
        count_ -= it->second.size();
        for (const Envelope& envelope : it->second) bytes_ -= envelope.payload.size();
        it = waiting_.erase(it);
      } else {
        ++it;
      }
    }
  }

  /// Forgets the messages that wait and are `unwanted`.
  void ForgetIf(const std::function<bool(const protocol::Message&)>& unwanted) {
    for (auto& [key, queue] : waiting_) {
      count_ -= std::erase_if(queue, [&](const Envelope& envelope) {
        if (!unwanted(envelope.message)) return false;
        bytes_ -= envelope.payload.size();
        return true;
      });
    }
  }

  std::size_t waiting() const { return count_; }
  /// Of the payloads that wait.
  std::size_t waiting_bytes() const { return bytes_; }

 private:
  static bool WorthWaiting(const Status& status) {
    return status.code() == StatusCode::kUnavailable ||
           status.code() == StatusCode::kResourceExhausted;
  }

  void ScheduleFlush() {
    if (std::exchange(scheduled_, true)) return;
    loop_->PostAt(Clock::now() + std::chrono::milliseconds(1), [this] {
      scheduled_ = false;
      Flush();
    });
  }

  Endpoint* const endpoint_;
  Loop* const loop_;
  bool scheduled_ = false;
  std::map<std::pair<WorkerId, Lane>, std::deque<Envelope>> waiting_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace swarm::net
