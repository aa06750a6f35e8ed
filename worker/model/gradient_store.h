// The gradients of a stage on their way: those of single microbatches, waiting under their key, and
// the sums of steps.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <span>
#include <vector>

#include "worker/model/layout.h"

namespace swarm::model {

/// The gradients of one microbatch.
struct MicrobatchGradients {
  std::vector<at::Tensor> operands;  ///< in the order of Layout::operands, in the operands' types
  at::Tensor tokens;                 ///< [B L] int64; stage 0
  at::Tensor embedded;               ///< [B L, D]: the gradient by the embedding's output; stage 0
};

class GradientStore {
 public:
  /// `layout` must outlive this.
  GradientStore(const Layout& layout, at::Device device) : layout_(layout), device_(device) {}

  bool Waits(const TaskKey& key) const { return waiting_.contains(key); }
  void Put(const TaskKey& key, MicrobatchGradients gradients);
  void Drop(const TaskKey& key) { waiting_.erase(key); }

  /// Adds the waiting gradients of `key` to the sums of its step. Errors: kNotFound.
  Status Fold(const TaskKey& key);
  /// The sum of (step, group), on the host, until Release(step).
  std::span<const float> Sum(Step step, std::uint64_t group);
  /// Forgets sums and waiting gradients of a step.
  void Release(Step step);
  /// Forgets everything.
  void Clear();

 private:
  struct Accumulator {
    std::vector<at::Tensor> sums;  ///< one a group; flat float32 on the device
    std::vector<at::Tensor> host;  ///< of the sums, where the device has memory of its own
  };
  Accumulator& Open(Step step);

  const Layout& layout_;
  at::Device device_;
  std::map<TaskKey, MicrobatchGradients> waiting_;
  std::map<Step, Accumulator> accumulators_;
  std::vector<Accumulator>
      spare_;  ///< of released steps: fresh memory costs a page fault every 4 KB
};

}  // namespace swarm::model
