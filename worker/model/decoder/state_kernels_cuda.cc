#include <ATen/ATen.h>

#include "worker/codec/cuda/kernels.h"
#include "worker/model/decoder/state_kernels.h"

namespace swarm::model {
namespace {

namespace cuda = codec::cuda;

/// libtorch's default: the legacy stream of the device.
constexpr cuda::Stream kComputeStream = nullptr;

class CudaStateKernels final : public StateKernels {
 public:
  explicit CudaStateKernels(at::Device device) : device_(device) {}

  Status AddRows(const RowSums& rows, float* table) const override {
    return cuda::AddRows(rows.values, {rows.ids.data(), rows.ids.size(), rows.width},
                         reinterpret_cast<const std::uint32_t*>(rows.order),
                         reinterpret_cast<const std::uint32_t*>(rows.begins), table,
                         kComputeStream);
  }
  Status Dequantize(std::span<const std::int64_t> sum, int exponent,
                    std::span<float> values) const override {
    return cuda::Dequantize(sum.data(), sum.size(), exponent, values.data(), kComputeStream);
  }
  Status SquaredNorm(std::span<const float> values, double* squares, double* norm,
                     device::NativeStream stream) const override {
    return cuda::SquaredNorm(values.data(), values.size(), squares, norm,
                             static_cast<cuda::Stream>(stream));
  }
  std::size_t NormNumbers(std::size_t count) const override { return cuda::NormBlocks(count); }
  Status DigestPieces(const cuda::DigestTask& task, device::NativeStream stream) const override {
    return cuda::DigestPieces(task, static_cast<cuda::Stream>(stream));
  }
  Status Step(api::OptimizerType type, const optim::UpdateOptions& options,
              const optim::UpdateSpans& spans) const override {
    const cuda::UpdateMemory memory{spans.old_weights.data(),  spans.gradient.data(),
                                    spans.first_moment.data(), spans.second_moment.data(),
                                    spans.weights.data(),      spans.weights.size()};
    if (type != api::OptimizerType::kLAMB) {
      return cuda::UpdateAdamW(options, memory, kComputeStream);
    }
    // libtorch gives this memory to later work of the same stream alone.
    const at::Tensor direction = Empty(memory.n, at::kFloat);
    const at::Tensor squares = Empty(cuda::NormBlocks(memory.n) + 2, at::kDouble);
    auto* const norms = squares.mutable_data_ptr<double>();
    return cuda::UpdateLamb(
        options, memory, {direction.mutable_data_ptr<float>(), norms + 2, norms}, kComputeStream);
  }

 private:
  at::Tensor Empty(std::size_t count, at::ScalarType type) const {
    return at::empty({static_cast<std::int64_t>(count)}, at::TensorOptions(device_).dtype(type));
  }

  const at::Device device_;
};

}  // namespace

std::unique_ptr<StateKernels> MakeCudaStateKernels(at::Device device) {
  return std::make_unique<CudaStateKernels>(device);
}

}  // namespace swarm::model
