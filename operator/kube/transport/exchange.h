// The answer to one request, passed from the threads of the HTTP library to the caller's thread.
// The buffer is bounded: when it is full, the library stops reading from the socket.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "operator/kube/transport/http.h"

namespace swarm::kube {

/// Thread-safe. After Abandon, the library is told to stop sending.
class Exchange {
 public:
  explicit Exchange(std::size_t buffered_bytes_max) : buffered_bytes_max_(buffered_bytes_max) {}

  // For the library.
  void OnHead(HttpHead head);
  /// Takes `bytes`, and calls `on_room` when there is room for more: at once, or later on the
  /// caller's thread. on_room(false) means that no more bytes are wanted. Requires: on_room of the
  /// previous call was called.
  void Put(std::string_view bytes, std::function<void(bool wanted)> on_room);
  void OnEnd(Status status);

  // For the caller.
  /// The HTTP status and headers. Errors: kDeadlineExceeded, kCancelled, or the status of OnEnd if
  /// the exchange ended before them.
  Result<HttpHead> WaitForHead(Timepoint deadline, std::stop_token stop);
  /// Some bytes; empty at the end. Errors: as WaitForHead.
  Result<std::string> WaitForBytes(Timepoint deadline, std::stop_token stop);
  void Abandon();
  bool ended() const;

 private:
  const std::size_t buffered_bytes_max_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<HttpHead> head_;
  std::string buffered_;
  std::function<void(bool)> on_room_;  // set while the library waits
  std::optional<Status> end_;
  bool abandoned_ = false;
};

}  // namespace swarm::kube
