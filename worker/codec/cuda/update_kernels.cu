#include "worker/codec/cuda/launch.cuh"
#include "worker/codec/cuda/update_body.h"

namespace swarm::codec::cuda {
namespace {

using Thread = WarpTeam<1>;

template <unsigned kWidth>
__global__ void __launch_bounds__(kThreads)
    AdamWKernel(const optim::AdamWFactors factors, const UpdateMemory memory) {
  UpdateAdamWPack<kWidth>(factors, memory, Thread::Index());
}

template <unsigned kWidth>
__global__ void __launch_bounds__(kThreads)
    LambDirectionKernel(const optim::LambFactors factors, const UpdateMemory memory,
                        float* direction) {
  LambDirectionPack<kWidth>(factors, memory, direction, Thread::Index());
}

__global__ void __launch_bounds__(kThreads)
    LambStepKernel(double learning_rate, bool by_norm, const UpdateMemory memory,
                   const LambMemory lamb) {
  const std::size_t i = Thread::Index();
  if (i >= memory.n) return;
  GoInDirection(memory, lamb.direction, LambStep(learning_rate, by_norm, lamb.squared_norms), i);
}

bool MovesInPacks(const UpdateMemory& memory, const float* out) {
  return IsAlignedToPacks<4>(memory.old_weights) && IsAlignedToPacks<4>(memory.gradient) &&
         IsAlignedToPacks<4>(memory.first_moment) && IsAlignedToPacks<4>(memory.second_moment) &&
         IsAlignedToPacks<4>(out);
}

}  // namespace

Status UpdateAdamW(const optim::UpdateOptions& options, const UpdateMemory& memory, Stream stream) {
  const optim::AdamWFactors factors = optim::AdamWFactorsOf(options);
  const std::size_t n = memory.n;
  if (n == 0) return {};
  if (MovesInPacks(memory, memory.weights)) {
    AdamWKernel<4><<<BlocksOf((n + 3) / 4, 1), kThreads, 0, stream>>>(factors, memory);
  } else {
    AdamWKernel<1><<<BlocksOf(n, 1), kThreads, 0, stream>>>(factors, memory);
  }
  return CheckLaunch("update", n);
}

Status UpdateLamb(const optim::UpdateOptions& options, const UpdateMemory& memory,
                  const LambMemory& lamb, Stream stream) {
  const optim::LambFactors factors = optim::LambFactorsOf(options);
  const std::size_t n = memory.n;
  if (n == 0) return {};
  if (MovesInPacks(memory, lamb.direction)) {
    LambDirectionKernel<4>
        <<<BlocksOf((n + 3) / 4, 1), kThreads, 0, stream>>>(factors, memory, lamb.direction);
  } else {
    LambDirectionKernel<1>
        <<<BlocksOf(n, 1), kThreads, 0, stream>>>(factors, memory, lamb.direction);
  }
  RETURN_IF_ERROR(CheckLaunch("update", n));
  RETURN_IF_ERROR(SquaredNorm(memory.old_weights, n, lamb.squares, lamb.squared_norms, stream));
  RETURN_IF_ERROR(SquaredNorm(lamb.direction, n, lamb.squares, lamb.squared_norms + 1, stream));
  LambStepKernel<<<BlocksOf(n, 1), kThreads, 0, stream>>>(options.learning_rate, options.by_norm,
                                                          memory, lamb);
  return CheckLaunch("update", n);
}

}  // namespace swarm::codec::cuda
