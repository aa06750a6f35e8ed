// What is computed on the floats of a state where they are: on the CPU by worker/optim, on a GPU by
// the kernels of worker/codec/cuda, to the same bits.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/device/device.h"
#include "worker/optim/update.h"

namespace swarm::codec::cuda {
struct DigestTask;
}

namespace swarm::model {

/// Rows of a table [V, width], and what is added to them: to row ids[u] the rows order[i] of values
/// [n, width], for begins[u] <= i < begins[u + 1], one after the other.
struct RowSums {
  std::span<const std::int64_t> ids;  ///< each once
  std::size_t width = 0;
  const float* values = nullptr;
  const std::int32_t* order = nullptr;
  const std::int32_t* begins = nullptr;
};

/// All memory is such as the kernels' device touches. Errors: kInternal (the device refuses),
/// kUnavailable (the build has no kernels).
class StateKernels {
 public:
  virtual ~StateKernels() = default;
  virtual Status AddRows(const RowSums& rows, float* table) const = 0;
  /// As optim::Dequantize, of a sum of any magnitude.
  virtual Status Dequantize(std::span<const std::int64_t> sum, int exponent,
                            std::span<float> values) const = 0;
  /// As optim::SquaredNorm, in that stream. `squares` is memory for NormNumbers(values.size()).
  virtual Status SquaredNorm(std::span<const float> values, double* squares, double* norm,
                             device::NativeStream stream) const = 0;
  virtual std::size_t NormNumbers(std::size_t) const { return 0; }
  /// As codec::cuda::DigestPieces, in that stream.
  virtual Status DigestPieces(const codec::cuda::DigestTask& task,
                              device::NativeStream stream) const = 0;
  /// The step of AdamW or LAMB, of a whole tensor.
  virtual Status Step(api::OptimizerType type, const optim::UpdateOptions& options,
                      const optim::UpdateSpans& spans) const = 0;
};

std::unique_ptr<StateKernels> MakeStateKernels(at::Device device);
/// Of a GPU. For MakeStateKernels.
std::unique_ptr<StateKernels> MakeCudaStateKernels(at::Device device);

}  // namespace swarm::model
