// The teams of team.h on the device: the threads of a warp, or of an equal part of one.
#pragma once

#include <cstdint>

namespace swarm::codec::cuda {

/// Requires: kLanes divides 32, the threads of a thread block are a multiple of 32, and all lanes
/// of a team call the same methods in the same order.
template <unsigned kLanesOfTeam>
class WarpTeam {
 public:
  static constexpr unsigned kLanes = kLanesOfTeam;

  /// The number of this team, of all teams of the grid.
  __device__ static std::uint64_t Index() {
    return (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  }

  template <typename Phase>
  __device__ void Each(Phase phase) const {
    phase(Lane());
    __syncwarp(Mask());
  }
  template <typename Action>
  __device__ void Once(Action action) const {
    if (Lane() == 0) action();
    __syncwarp(Mask());
  }
  template <typename Phase>
  __device__ std::uint32_t Max(Phase phase) const {
    std::uint32_t value = phase(Lane());
    for (unsigned step = kLanes / 2; step > 0; step /= 2) {
      value = max(value, __shfl_xor_sync(Mask(), value, step, kLanes));
    }
    return value;
  }
  template <typename Phase>
  __device__ std::uint64_t Or(Phase phase) const {
    unsigned long long value = phase(Lane());
    for (unsigned step = kLanes / 2; step > 0; step /= 2) {
      value |= __shfl_xor_sync(Mask(), value, step, kLanes);
    }
    return value;
  }
  template <typename Phase>
  __device__ double SumInOrder(double start, Phase phase) const {
    const double value = phase(Lane());
    double sum = start;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      sum += __shfl_sync(Mask(), value, lane, kLanes);
    }
    return sum;
  }
  __device__ void Lower(std::uint32_t* word, std::uint32_t value) const {
    Once([&] { atomicMin(word, value); });
  }
  __device__ void Raise(std::uint32_t* word, std::uint32_t value) const {
    Once([&] { atomicMax(word, value); });
  }
  __device__ void SetBits(std::uint64_t* word, std::uint64_t value) const {
    Once([&] { atomicOr(reinterpret_cast<unsigned long long*>(word), value); });
  }

 private:
  __device__ static unsigned Lane() { return threadIdx.x % kLanes; }
  /// The threads of the warp that are this team.
  __device__ static unsigned Mask() {
    constexpr unsigned kAll = kLanes == 32 ? ~0u : (1u << (kLanes % 32)) - 1;
    return kAll << (threadIdx.x % 32 / kLanes * kLanes);
  }
};

}  // namespace swarm::codec::cuda
