// Messages on their way to peers that cannot take them yet: a connection that is still being
// opened, or a send window that is full. Keeps the order of each (peer, lane), and tries waiting
// messages again every millisecond where a window is full. Its owner calls Flush when a peer is
// connected. Not thread-safe: owned by a Loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/loop.h"
#include "worker/net/endpoint.h"

namespace swarm::net {

class Outbox {
 public:
  /// The payloads that wait have become so many bytes more, or fewer.
  using OnChange = std::function<void(std::int64_t bytes)>;

  /// Used on `loop` alone. Both outlive it, or the loop stops before it ends.
  Outbox(Endpoint* endpoint, Loop* loop, OnChange on_change = {})
      : endpoint_(endpoint), loop_(loop), on_change_(std::move(on_change)) {}

  /// Bounds the payloads that wait. One peer may take half, so that one that cannot be reached
  /// leaves room for the others. One message of each peer and lane always has room.
  void SetBytesMax(std::size_t bytes_max) { bytes_max_ = bytes_max; }

  /// Sends now, or keeps the message until it can be sent. Errors: kResourceExhausted (it would
  /// have to wait, and there is no room: it is dropped); or the message can never be sent (above
  /// the cap).
  Status Send(const WorkerId& to, Lane lane, Envelope envelope) {
    Queue& queue = waiting_[{to, lane}];
    bool window_full = false;
    if (queue.messages.empty()) {
      // The endpoint takes the envelope only when it queues it, so a copy of handles is kept.
      const Status status = endpoint_->Send(to, lane, envelope);
      if (status.ok()) return status;
      if (!WorthWaiting(status)) return status;
      window_full = status.code() == StatusCode::kResourceExhausted;
    }
    const std::size_t bytes = envelope.payload.size();
    const bool fits = bytes_ + bytes <= bytes_max_ && queue.bytes + bytes <= bytes_max_ / 2;
    if (bytes > 0 && queue.bytes > 0 && !fits) {
      return ResourceExhausted(std::to_string(queue.bytes) + " bytes wait for " + to.value +
                               " already, and " + std::to_string(bytes_) + " for all peers");
    }
    Count(queue, 1, bytes);
    queue.messages.push_back(std::move(envelope));
    FlushLater(window_full);
    return Status();
  }

  /// Tries the waiting messages again.
  void Flush() {
    bool window_full = false;
    for (auto& [key, queue] : waiting_) {
      while (!queue.messages.empty()) {
        const Envelope& next = queue.messages.front();
        const Status status = endpoint_->Send(key.first, key.second, next);
        window_full |= status.code() == StatusCode::kResourceExhausted;
        if (WorthWaiting(status)) break;
        Count(queue, -1, next.payload.size());
        queue.messages.pop_front();
      }
    }
    if (count_ > 0) FlushLater(window_full);
  }

  /// Forgets the messages that wait for a peer that is gone.
  void Forget(const WorkerId& peer) {
    const auto end = waiting_.upper_bound({peer, Lane::kData});
    for (auto it = waiting_.lower_bound({peer, Lane::kControl}); it != end;) {
      count_ -= it->second.messages.size();
      Change(-static_cast<std::int64_t>(it->second.bytes));
      it = waiting_.erase(it);
    }
  }

  /// Forgets the messages that wait and are `unwanted`.
  void ForgetIf(const std::function<bool(const protocol::Message&)>& unwanted) {
    for (auto& [key, queue] : waiting_) {
      std::erase_if(queue.messages, [&](const Envelope& envelope) {
        if (!unwanted(envelope.message)) return false;
        Count(queue, -1, envelope.payload.size());
        return true;
      });
    }
  }

  std::size_t waiting() const { return count_; }
  /// Of the payloads that wait.
  std::size_t waiting_bytes() const { return bytes_; }

 private:
  struct Queue {
    std::deque<Envelope> messages;
    std::size_t bytes = 0;
  };

  static bool WorthWaiting(const Status& status) {
    return status.code() == StatusCode::kUnavailable ||
           status.code() == StatusCode::kResourceExhausted;
  }

  /// One message has come (+1) or gone (-1).
  void Count(Queue& queue, int sign, std::size_t bytes) {
    count_ += static_cast<std::size_t>(sign);
    queue.bytes += static_cast<std::size_t>(sign) * bytes;
    Change(sign * static_cast<std::int64_t>(bytes));
  }
  void Change(std::int64_t bytes) {
    bytes_ += static_cast<std::size_t>(bytes);
    if (on_change_) on_change_(bytes);
  }

  void FlushLater(bool window_full) {
    // Nobody tells when a window has room. Where there is no connection the try is for one that
    // could not be dialled.
    const Timepoint when = Clock::now() + std::chrono::milliseconds(window_full ? 1 : 100);
    if (when >= next_flush_) return;
    next_flush_ = when;
    loop_->PostAt(when, [this, when] {
      if (when == next_flush_) next_flush_ = Timepoint::max();
      Flush();
    });
  }

  Endpoint* const endpoint_;
  Loop* const loop_;
  const OnChange on_change_;
  Timepoint next_flush_ = Timepoint::max();
  std::map<std::pair<WorkerId, Lane>, Queue> waiting_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  std::size_t bytes_max_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace swarm::net
