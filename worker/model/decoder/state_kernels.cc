#include "worker/model/decoder/state_kernels.h"

#include <cstddef>

#include "worker/codec/cuda/digest_body.h"
#include "worker/optim/fixed_point.h"
#include "worker/optim/norm.h"

namespace swarm::model {
namespace {

class CpuStateKernels final : public StateKernels {
 public:
  Status AddRows(const RowSums& rows, float* table) const override {
    for (std::size_t u = 0; u < rows.ids.size(); ++u) {
      float* const to = table + static_cast<std::size_t>(rows.ids[u]) * rows.width;
      for (std::int32_t i = rows.begins[u]; i < rows.begins[u + 1]; ++i) {
        const float* const row = rows.values + static_cast<std::size_t>(rows.order[i]) * rows.width;
        for (std::size_t d = 0; d < rows.width; ++d) to[d] += row[d];
      }
    }
    return {};
  }
  Status Dequantize(std::span<const std::int64_t> sum, int exponent,
                    std::span<float> values) const override {
    optim::Dequantize(sum, exponent, optim::MagnitudeBits(sum), values);
    return {};
  }
  Status SquaredNorm(std::span<const float> values, double*, double* norm,
                     device::NativeStream) const override {
    *norm = optim::SquaredNorm(values);
    return {};
  }
  Status DigestPieces(const codec::cuda::DigestTask& task, device::NativeStream) const override {
    const std::size_t blocks = task.pieces * task.blocks;
    for (std::size_t i = 0; i < blocks * kDigestLanes; ++i) SumOfBlock(task, i);
    for (std::size_t i = 0; i < task.pieces * kDigestLanes; ++i) AccumulatePiece(task, i);
    return {};
  }
  Status Step(api::OptimizerType type, const optim::UpdateOptions& options,
              const optim::UpdateSpans& spans) const override {
    type == api::OptimizerType::kLAMB ? optim::UpdateLamb(options, spans)
                                      : optim::UpdateAdamW(options, spans);
    return {};
  }
};

}  // namespace

std::unique_ptr<StateKernels> MakeStateKernels(at::Device device) {
  if (device.is_cuda()) return MakeCudaStateKernels(device);
  return std::make_unique<CpuStateKernels>();
}

}  // namespace swarm::model
