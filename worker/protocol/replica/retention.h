// The outputs and input gradients that a replica has sent and keeps, because the trainer may ask
// for them again (rule 10): a cache that drops its oldest entries first.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "worker/protocol/replica/action.h"

namespace swarm::protocol {

class Retention {
 public:
  explicit Retention(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  /// The shell keeps `bytes` of the task: its input gradient, or else its output. Releases the
  /// oldest entries that do not fit any more.
  void Keep(const TaskKey& key, const Forward& frame, bool gradient, std::uint64_t bytes,
            Actions& actions);
  /// The frame of the task, if its output (its input gradient) is kept.
  const Forward* FindOutput(const TaskKey& key) const;
  const Forward* FindGradient(const TaskKey& key) const;
  /// The step is committed: the trainer will not ask for outputs of it or of earlier steps.
  void Forget(Step step);
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Kept {
    Forward frame;  // with tokens
    std::optional<std::uint64_t> output_bytes, gradient_bytes;
  };
  void ReleaseOldest(Actions& actions);

  const std::uint64_t bytes_max_;
  std::map<TaskKey, Kept> kept_;
  std::deque<std::pair<TaskKey, bool>> order_;  // (key, gradient), the oldest first
  std::uint64_t bytes_ = 0;
};

}  // namespace swarm::protocol
