// One request on its way: filled by the threads of the HTTP library, drained by the caller's.
// Bounded: above its limit the library is told to wait, and reads no more from the socket.
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

/// Thread-safe. After Abandon the library's side is told that nobody wants any more.
class Exchange {
 public:
  explicit Exchange(std::size_t buffered_bytes_max) : buffered_bytes_max_(buffered_bytes_max) {}

  // The library's side.
  void OnHead(HttpHead head);
  /// Takes `bytes`, and calls `on_room` when more may come: at once or, on the caller's thread,
  /// later; with false if nobody wants more. Requires: on_room of the call before was called.
  void Put(std::string_view bytes, std::function<void(bool wanted)> on_room);
  void OnEnd(Status status);

  // The caller's side.
  /// The status and headers. kDeadlineExceeded, kCancelled, or what OnEnd said before they came.
  Result<HttpHead> WaitForHead(Timepoint deadline, std::stop_token stop);
  /// Some bytes; empty at the end. Errors as above.
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
