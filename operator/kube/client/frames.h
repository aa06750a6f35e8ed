// Turns the bytes of a watch, cut at any place, into events. Pure, and safe for any input.
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

/// Finds the end of each JSON object in a stream, from brackets and quotes alone. Chunks may end
/// anywhere, even within a character, and objects may be pretty-printed. A JSON parser then checks
/// each frame.
class JsonFramer {
 public:
  explicit JsonFramer(std::size_t frame_bytes_max) : frame_bytes_max_(frame_bytes_max) {}

  /// Appends the frames that `bytes` completes to `frames`. Errors: kResourceExhausted, a frame is
  /// too large; kDataLoss, the input is not an object. The framer cannot be used after an error.
  Status Feed(std::string_view bytes, std::vector<std::string>& frames);

  /// Whether the bytes so far end within a frame.
  bool in_frame() const { return depth_ > 0; }
  /// The size of the incomplete frame.
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

/// One parsed frame: an event, an error that ends the watch, or neither; then `problem` is a
/// kDataLoss.
struct WatchFrame {
  std::optional<WatchEvent> event;
  std::optional<ApiError> error;
  Status problem;
};

/// Parses `{"type": ..., "object": ...}`, or a bare metav1.Status, which servers send instead of a
/// watch.
WatchFrame ParseWatchFrame(std::string_view frame, const TrimObject& trim);

struct ListPage {
  std::vector<PackedObject> items;
  std::string resource_version;
  std::string next;  ///< the continue token; empty on the last page
};

/// Errors: kDataLoss, `body` is not a complete list. It must never be taken for an empty list.
Result<ListPage> ParseListPage(std::string_view body, const TrimObject& trim);

}  // namespace swarm::kube
