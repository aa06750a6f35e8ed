// A device for tests and benchmarks: whether there is one, and memory on it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"

namespace swarm::codec::cuda {

/// Why no kernel can run here; empty: one can.
inline std::string WhyNoDevice() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) return std::string("there is no GPU: ") + cudaGetErrorString(error);
  return devices > 0 ? "" : "there is no GPU";
}

inline void Require(cudaError_t error) {
  SWARM_CHECK(error == cudaSuccess, std::string("cuda: ") + cudaGetErrorString(error));
}

/// `count` elements on the device.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count) {
    Require(cudaMalloc(reinterpret_cast<void**>(&at_), count * sizeof(T) + 1));
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    Require(cudaMemcpy(at_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~OnDevice() { cudaFree(at_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* get() const { return at_; }
  /// Waits for what was enqueued before on the default stream.
  std::vector<T> Read() const {
    std::vector<T> values(count_);
    Require(cudaMemcpy(values.data(), at_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t count_;
  T* at_ = nullptr;
};

}  // namespace swarm::codec::cuda
