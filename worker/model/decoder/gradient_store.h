// The gradients of a stage on their way: those of single microbatches, waiting under their key, and
// the sums of steps, as floats or, with Accumulation::kExact, as integers.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer_pool.h"
#include "worker/model/decoder/piece_digests.h"
#include "worker/model/decoder/state_kernels.h"
#include "worker/model/decoder/state_memory.h"
#include "worker/model/exact_sums.h"
#include "worker/model/layout/layout.h"
#include "worker/model/stage.h"

namespace swarm::model {

/// The gradients of one microbatch.
struct MicrobatchGradients {
  /// In the order of Layout::operands, in the operands' types, or float32 where these are binary16;
  /// undefined for one that is frozen or
  /// without influence.
  std::vector<at::Tensor> operands;
  at::Tensor tokens;  ///< [B L] int64, on the host; of a stage with tables
  /// In the order of Layout::tables, [B L, n]: the gradients by the rows that were looked up;
  /// undefined for one that is frozen.
  std::vector<at::Tensor> rows;
};

class GradientStore {
 public:
  /// `layout` and `memory`, which has the sums, must outlive this.
  /// `audited`: digests of gradients are wanted.
  GradientStore(const Layout& layout, at::Device device, api::Accumulation accumulation,
                std::uint64_t microbatches, bool audited, StateMemory& memory);

  bool Waits(const TaskKey& key) const { return waiting_.contains(key); }
  void Put(const TaskKey& key, MicrobatchGradients gradients);
  void Drop(const TaskKey& key) { waiting_.erase(key); }

  /// What is known of waiting gradients: as BackwardResult says.
  struct Measured {
    bool fits = true;
    std::uint64_t digest = 0;
  };
  /// Measures the waiting gradients of `key`. `exponents`, one for each of Layout::slots, are the
  /// step's; none for floats. Requires sums on the host.
  Measured MeasureHere(const TaskKey& key, const std::vector<int>& exponents);
  /// The same of a device, which does not know at once.
  struct Measurement {
    at::Tensor numbers;  ///< float32, on the device: what is to come to the host
    /// Takes it there, once, on any thread; it may outlive the store, but not the layout. If it did
    /// not come, the gradients fit.
    std::function<Measured(const Result<Bytes>& numbers)> take;
  };
  /// None where MeasureHere is to be asked.
  std::optional<Measurement> Measure(const TaskKey& key, const std::vector<int>& exponents);
  /// As Stage::Fold.
  Status Fold(const TaskKey& key, const std::vector<int>& exponents);
  /// As Stage::Absorb.
  Status Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite);
  /// As Stage::BeginAccumulator.
  std::function<Result<GradientSum>()> BeginSum(Step step, std::uint64_t group,
                                                const std::vector<int>& exponents);
  /// The sums of a step where they are, one a group. They change with the next fold.
  std::vector<StateBlock> SumsOf(Step step) { return Open(step).sums; }
  /// The same, if these are the copies that BeginSum has given of them; else none.
  std::vector<StateBlock> SumsBehind(Step step, std::span<const Bytes> copies) const;
  /// As Stage::OwnNorms, of floats on a device.
  Result<std::vector<double>> Norms(Step step, std::uint64_t group) {
    return NormsBehind(memory_.Record(), Open(step).sums[group], group);
  }
  /// Forgets the sums of a step.
  void ClearSums(Step step) { accumulators_.erase(step); }
  /// Forgets sums and waiting gradients of a step.
  void Release(Step step);
  /// Forgets everything.
  void Clear();

 private:
  struct Accumulator {
    std::vector<StateBlock> sums;  ///< one a group
    std::vector<bool> lent;        ///< one a group: others read the sum, it must not be written
    std::vector<std::weak_ptr<const void>> copies;  ///< one a group: who owns what the host has
    bool finite = true;
  };
  /// A parameter's part of a contribution.
  struct Part {
    std::size_t slot = 0;
    at::Tensor values;  ///< float32, flat, contiguous
    at::Tensor rows;    ///< int64 [U]: `values` are these rows of the parameter; undefined: all
  };
  struct Waiting {
    MicrobatchGradients gradients;
    std::vector<Part> parts = {};            ///< of the gradients; empty until they are needed
    std::vector<Magnitude> magnitudes = {};  ///< one a part
    /// On a device: `largest` of all magnitudes, on its way.
    std::shared_future<Result<Bytes>> largest = {};
  };
  /// The positions of a microbatch by their token: those of ids[u], in order, are order[begins[u]]
  /// up to order[begins[u + 1]].
  struct TokenOrder {
    at::Tensor ids;            ///< [U] int64, ascending
    at::Tensor order, begins;  ///< int32, [B L] and [U + 1]
  };
  bool exact() const { return accumulation_ == api::Accumulation::kExact; }
  Accumulator& Open(Step step);
  /// The open sums of a step, for writing.
  Accumulator& OpenToWrite(Step step);
  void FoldFloats(const MicrobatchGradients& gradients, const Accumulator& accumulator) const;
  /// On the device. Throws c10::Error where that fails.
  TokenOrder OrderByToken(const at::Tensor& tokens) const;
  /// Adds rows [B L, n] to those of a table, each token's in the order of positions, which is the
  /// same on every machine: to row ids[u]. Throws the same.
  void AddRows(const at::Tensor& rows, const TokenOrder& order, const at::Tensor& ids,
               const at::Tensor& table) const;
  /// A tensor of the host on the device. Throws the same.
  at::Tensor Place(const at::Tensor& on_host) const;
  Status FoldIntegers(Waiting& waiting, const TaskKey& key, const std::vector<int>& exponents);
  /// Measures the parts, or waits for what a device measures. Errors: those of the device.
  Status AwaitMagnitudes(Waiting& waiting) const;
  std::vector<Part> PartsOf(const MicrobatchGradients& gradients) const;
  /// Not measured.
  static std::vector<Magnitude> MagnitudesOf(const std::vector<Part>& parts);
  static void TakeLargest(const Bytes& largest, std::vector<Magnitude>& magnitudes);
  /// Adds a part to its parameter's sum of integers.
  void AddPart(const Part& part, int exponent, float largest, const at::Tensor& sum) const;

  const Layout& layout_;
  StateMemory& memory_;
  const at::Device device_;
  const api::Accumulation accumulation_;
  const int contribution_bits_;
  const bool audited_;
  /// The norms of the parts of a group's sum, on a device, as they are behind the event. From any
  /// thread.
  Result<std::vector<double>> NormsBehind(const device::Event& event, const StateBlock& sum,
                                          std::uint64_t group);

  const std::unique_ptr<StateKernels> kernels_;
  /// Of sums of floats on a device that have pieces; null elsewhere.
  std::unique_ptr<PieceDigests> digests_;
  std::mutex measuring_;  ///< of norms, in this memory
  StateBlock norms_, squares_;
  std::map<TaskKey, Waiting> waiting_;
  std::map<Step, Accumulator> accumulators_;
  BufferPool copies_;  ///< of sums on a device
};

}  // namespace swarm::model
