// What a replica has sent and keeps for those that may ask for it again (rule 10): a cache of
// outputs and input gradients, whose oldest entries go first.
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

  /// The shell keeps `bytes` of the task: its input gradient, or else its output. What there is no
  /// room for any more is released.
  void Keep(const TaskKey& key, const Forward& frame, bool gradient, std::uint64_t bytes,
            Actions& actions);
  /// The frame of the task, if its output (its input gradient) is kept.
  const Forward* FindOutput(const TaskKey& key) const;
  const Forward* FindGradient(const TaskKey& key) const;
  /// The step is committed: nothing of it, or of steps before it, will be asked for.
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
