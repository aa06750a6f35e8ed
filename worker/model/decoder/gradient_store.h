// The gradients of a stage on their way: those of single microbatches, waiting under their key, and
// the sums of steps, as floats or, with Accumulation::kExact, as integers.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <span>
#include <vector>

#include "worker/model/layout/layout.h"
#include "worker/model/stage.h"

namespace swarm::model {

/// The gradients of one microbatch.
struct MicrobatchGradients {
  /// In the order of Layout::operands, in the operands' types, or float32 where these are binary16;
  /// undefined for one that is frozen or
  /// without influence.
  std::vector<at::Tensor> operands;
  at::Tensor tokens;  ///< [B L] int64; of a stage with tables
  /// In the order of Layout::tables, [B L, n]: the gradients by the rows that were looked up;
  /// undefined for one that is frozen.
  std::vector<at::Tensor> rows;
};

class GradientStore {
 public:
  /// `layout` must outlive this.
  GradientStore(const Layout& layout, at::Device device, api::Accumulation accumulation,
                std::uint64_t microbatches);

  bool Waits(const TaskKey& key) const { return waiting_.contains(key); }
  void Put(const TaskKey& key, MicrobatchGradients gradients);
  void Drop(const TaskKey& key) { waiting_.erase(key); }

  /// As Stage::Fits, Stage::Fold. `exponents`, one for each of Layout::slots, are the step's; none
  /// for floats.
  bool Fits(const TaskKey& key, const std::vector<int>& exponents);
  Status Fold(const TaskKey& key, const std::vector<int>& exponents);
  /// As Stage::Absorb.
  Status Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite);
  /// As Stage::Accumulator.
  GradientSum Sum(Step step, std::uint64_t group, const std::vector<int>& exponents);
  /// Forgets the sums of a step.
  void ClearSums(Step step) { accumulators_.erase(step); }
  /// Forgets sums and waiting gradients of a step.
  void Release(Step step);
  /// Forgets everything.
  void Clear();

 private:
  struct Accumulator {
    std::vector<at::Tensor> sums;  ///< one a group; flat, on the device
    std::vector<bool> lent;        ///< one a group: others read the sum, it must not be written
    bool finite = true;
  };
  /// A parameter's part of a contribution.
  struct Part {
    std::size_t slot = 0;
    at::Tensor values;  ///< float32, flat, contiguous
    at::Tensor rows;    ///< int64 [U]: `values` are these rows of the parameter; undefined: all
    float largest = 0;  ///< magnitude; not finite if a value is not
  };
  struct Waiting {
    MicrobatchGradients gradients;
    std::vector<Part> parts;  ///< of the gradients, measured; empty until they are needed
  };
  bool exact() const { return accumulation_ == api::Accumulation::kExact; }
  Accumulator& Open(Step step);
  /// The open sums of a step, for writing.
  Accumulator& OpenToWrite(Step step);
  void FoldFloats(const MicrobatchGradients& gradients, const Accumulator& accumulator) const;
  Status FoldIntegers(Waiting& waiting, const TaskKey& key, const std::vector<int>& exponents);
  /// Why the gradients do not fit.
  Status CheckRange(const std::vector<Part>& parts, const TaskKey& key,
                    const std::vector<int>& exponents) const;
  const std::vector<Part>& MeasuredParts(Waiting& waiting) const;
  std::vector<Part> PartsOf(const MicrobatchGradients& gradients) const;
  void Measure(std::vector<Part>& parts) const;
  void AddQuantized(const Part& part, int exponent, const at::Tensor& sum) const;

  const Layout& layout_;
  const at::Device device_;
  const api::Accumulation accumulation_;
  const int contribution_bits_;
  std::map<TaskKey, Waiting> waiting_;
  std::map<Step, Accumulator> accumulators_;
};

}  // namespace swarm::model
