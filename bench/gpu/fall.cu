// Has a program's GPU fall off: CUDA loads this library into it (CUDA_INJECTION64_PATH). As soon as
// there is a file $SWARM_FALL/PID, a kernel traps in the program's context. From then on the driver
// answers every call of the program with an error, as it does after an Xid; other programs'
// contexts go on.
#include <cuda_runtime.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

__global__ void Trap() { __trap(); }

void FallWhenTold(const std::string& path) {
  while (access(path.c_str(), F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Trap<<<1, 1>>>();
  std::fprintf(stderr, "fall: %s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}

}  // namespace

extern "C" int InitializeInjection() {
  const char* folder = std::getenv("SWARM_FALL");
  if (folder == nullptr) return 1;
  std::thread(FallWhenTold, std::string(folder) + "/" + std::to_string(getpid())).detach();
  return 1;
}
