// How launchers start kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
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

}  // namespace swarm::codec::cuda
