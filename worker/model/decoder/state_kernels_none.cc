#include "worker/model/decoder/state_kernels.h"

namespace swarm::model {
namespace {

class NoStateKernels final : public StateKernels {
 public:
  Status AddRows(const RowSums&, float*) const override { return Missing(); }
  Status Dequantize(std::span<const std::int64_t>, int, std::span<float>) const override {
    return Missing();
  }
  Status SquaredNorm(std::span<const float>, double*, double*,
                     device::NativeStream) const override {
    return Missing();
  }
  Status DigestPieces(const codec::cuda::DigestTask&, device::NativeStream) const override {
    return Missing();
  }
  Status Step(api::OptimizerType, const optim::UpdateOptions&,
              const optim::UpdateSpans&) const override {
    return Missing();
  }

 private:
  static Status Missing() {
    return Unavailable("this build has no kernels for GPUs; build with the preset cuda");
  }
};

}  // namespace

std::unique_ptr<StateKernels> MakeCudaStateKernels(at::Device) {
  return std::make_unique<NoStateKernels>();
}

}  // namespace swarm::model
