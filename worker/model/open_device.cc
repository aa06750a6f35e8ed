#include "worker/model/open_device.h"

#include <ATen/ATen.h>
#include <dlfcn.h>

namespace swarm::model {
namespace {

/// Why libtorch's CUDA half is not here; empty: it is.
const std::string& LoadCuda() {
  static const std::string why = [] {
    // Its kernels register themselves, under names that all of libtorch sees.
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr) return std::string();
    return std::string(dlerror());
  }();
  return why;
}

}  // namespace

Result<at::Device> OpenDevice(const std::string& name) {
  try {
    const at::Device device(name);
    if (device.is_cuda() && !LoadCuda().empty()) {
      return Unavailable("device " + name + ": " + LoadCuda() +
                         "; a program for GPUs is built with the preset cuda, and finds NVIDIA's "
                         "libraries beside libtorch's");
    }
    at::empty({1}, at::TensorOptions(device));
    return device;
  } catch (const c10::Error& error) {
    return Unavailable("device " + name + ": " + error.what_without_backtrace());
  }
}

}  // namespace swarm::model
