// How launchers start kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "worker/codec/cuda/pack.h"
#include "worker/codec/cuda/warp_team.cuh"

namespace swarm::codec::cuda {

inline constexpr unsigned kThreads = 256;  ///< of a thread block

/// Whether the launch before was accepted. `what`: "encode 1024 numbers".
inline Status CheckLaunch(const char* what, std::size_t n) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return Internal(std::string("cuda: the device does not ") + what + " " + std::to_string(n) +
                  " numbers: " + cudaGetErrorString(error) +
                  "; if it has accepted others, restart the worker");
}

/// The thread blocks in which each of `teams` teams has its lanes.
inline unsigned BlocksOf(std::size_t teams, unsigned lanes) {
  const std::size_t in_block = kThreads / lanes;
  return static_cast<unsigned>((teams + in_block - 1) / in_block);
}

template <unsigned kWidth, typename In, typename Out, typename Of>
__global__ void __launch_bounds__(kThreads)
    ApplyKernel(const In* x, std::size_t n, Out* out, Of of) {
  const std::size_t index = WarpTeam<1>::Index();
  if (index * kWidth < n) ApplyToPack<kWidth>(x, n, out, of, index);
}

/// out[i] = of(x[i]), or of(x[i], out[i]) where `of` takes two.
template <typename In, typename Out, typename Of>
Status Apply(const char* what, const In* x, std::size_t n, Out* out, Of of, cudaStream_t stream) {
  if (n == 0) return {};
  if (IsAlignedToPacks<4>(x) && IsAlignedToPacks<4>(out)) {
    ApplyKernel<4><<<BlocksOf((n + 3) / 4, 1), kThreads, 0, stream>>>(x, n, out, of);
  } else {
    ApplyKernel<1><<<BlocksOf(n, 1), kThreads, 0, stream>>>(x, n, out, of);
  }
  return CheckLaunch(what, n);
}

}  // namespace swarm::codec::cuda
