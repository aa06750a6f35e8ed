#include "operator/kube/transport/exchange.h"

#include <utility>

namespace swarm::kube {

void Exchange::OnHead(HttpHead head) {
  const std::lock_guard lock(mutex_);
  head_ = std::move(head);
  changed_.notify_all();
}

void Exchange::Put(std::string_view bytes, std::function<void(bool)> on_room) {
  bool wanted = false;
  {
    const std::lock_guard lock(mutex_);
    wanted = !abandoned_;
    if (wanted) {
      buffered_.append(bytes);
      changed_.notify_all();
      if (buffered_.size() > buffered_bytes_max_) {
        on_room_ = std::move(on_room);
        return;
      }
    }
  }
  on_room(wanted);
}

void Exchange::OnEnd(Status status) {
  const std::lock_guard lock(mutex_);
  if (!end_) end_ = std::move(status);
  changed_.notify_all();
}

Result<HttpHead> Exchange::WaitForHead(Timepoint deadline, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  const bool there =
      changed_.wait_until(lock, stop, deadline, [this] { return head_.has_value() || end_; });
  if (head_) return *head_;
  if (stop.stop_requested()) return Cancelled("the request was stopped");
  if (!there) return DeadlineExceeded("no answer in time");
  return end_->ok() ? Unavailable("the server closed the connection without an answer") : *end_;
}

Result<std::string> Exchange::WaitForBytes(Timepoint deadline, std::stop_token stop) {
  std::string bytes;
  std::function<void(bool)> on_room;
  {
    std::unique_lock lock(mutex_);
    const bool there =
        changed_.wait_until(lock, stop, deadline, [this] { return !buffered_.empty() || end_; });
    if (stop.stop_requested()) return Cancelled("the request was stopped");
    if (!there) return DeadlineExceeded("the server has been silent for too long");
    // The bytes before a failure are valid, and are delivered first.
    if (buffered_.empty() && !end_->ok()) return *end_;
    bytes = std::exchange(buffered_, {});
    on_room = std::exchange(on_room_, nullptr);
  }
  if (on_room) on_room(true);
  return bytes;
}

void Exchange::Abandon() {
  std::function<void(bool)> on_room;
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    on_room = std::exchange(on_room_, nullptr);
  }
  if (on_room) on_room(false);
}

bool Exchange::ended() const {
  const std::lock_guard lock(mutex_);
  return end_.has_value();
}

}  // namespace swarm::kube
