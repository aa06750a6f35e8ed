// Bytes of a watch, cut anywhere, into events. Pure, and safe against any bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "operator/kube/client/api_error.h"
#include "operator/kube/client/client.h"

namespace swarm::kube {

/// Finds where one JSON object ends and the next begins, by brackets and quotes alone: chunks need
/// not end where objects do, nor between two characters, and a body may be pretty-printed. What
/// lies between is for a parser to judge.
class JsonFramer {
 public:
  explicit JsonFramer(std::size_t frame_bytes_max) : frame_bytes_max_(frame_bytes_max) {}

  /// Appends the frames that `bytes` completes to `frames`. Errors, after which the framer is of no
  /// more use: kResourceExhausted if a frame is larger than allowed, kDataLoss if something else
  /// than an object begins.
  Status Feed(std::string_view bytes, std::vector<std::string>& frames);

  /// Whether the bytes so far end within a frame.
  bool in_frame() const { return depth_ > 0; }
  /// Its bytes so far.
  std::size_t pending_bytes() const { return frame_.size(); }

 private:
  Status Begin(char c);
  bool Advance(char c);  // whether the frame is complete

  const std::size_t frame_bytes_max_;
  std::string frame_;
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

/// One frame: an event, or the error that ends the watch, or neither (the Status of a kDataLoss).
struct WatchFrame {
  std::optional<WatchEvent> event;
  std::optional<ApiError> error;
  Status problem;
};

/// `{"type": ..., "object": ...}`, or a bare metav1.Status, as servers send in place of a watch.
WatchFrame ParseWatchFrame(std::string_view frame, const TrimObject& trim);

struct ListPage {
  std::vector<PackedObject> items;
  std::string resource_version;
  std::string next;  ///< the continue token; empty on the last page
};

/// kDataLoss unless `body` is a list in full: what is not one must never pass for an empty one.
Result<ListPage> ParseListPage(std::string_view body, const TrimObject& trim);

}  // namespace swarm::kube
