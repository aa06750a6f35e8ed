// Writes what a program does on a GPU: CUDA loads this library into it (CUDA_INJECTION64_PATH), and
// the program's kernels, copies, and calls of CUDA that take a millisecond or more go to
// $SWARM_SPY.PID, a line each: begin and end in nanoseconds of one clock for all processes; K, C or
// A; and the kernel's name, the copy's kind and bytes, or the call's name.
// bench/gpu/busy.py reads it.
#include <cupti.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace {

// Small: the program may be killed, and what is in a buffer then is lost.
constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr std::uint64_t kLongCall = 1'000'000;  // ns
std::mutex mutex;
std::FILE* out = nullptr;

void GiveBuffer(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
  *size = kBuffer;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBuffer));
  *records = 0;
}

void Write(const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel4*>(record);
    std::fprintf(out, "%llu %llu K %s\n", static_cast<unsigned long long>(kernel->start),
                 static_cast<unsigned long long>(kernel->end), kernel->name);
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy*>(record);
    std::fprintf(out, "%llu %llu C %d %llu\n", static_cast<unsigned long long>(copy->start),
                 static_cast<unsigned long long>(copy->end), copy->copyKind,
                 static_cast<unsigned long long>(copy->bytes));
  } else if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME) {
    const auto* call = reinterpret_cast<const CUpti_ActivityAPI*>(record);
    if (call->end - call->start < kLongCall) return;
    const char* name = nullptr;
    if (cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, call->cbid, &name) != CUPTI_SUCCESS)
      return;
    std::fprintf(out, "%llu %llu A %s\n", static_cast<unsigned long long>(call->start),
                 static_cast<unsigned long long>(call->end), name);
  }
}

void TakeBuffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::lock_guard lock(mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) Write(record);
  std::fflush(out);  // the program may be killed
  std::free(buffer);
}

void Require(CUptiResult result, const char* what) {
  if (result != CUPTI_SUCCESS) std::fprintf(stderr, "spy: %s: error %d\n", what, result);
}

}  // namespace

extern "C" int InitializeInjection() {
  const char* path = std::getenv("SWARM_SPY");
  if (path == nullptr) return 1;
  out = std::fopen((std::string(path) + "." + std::to_string(getpid())).c_str(), "w");
  if (out == nullptr) return 1;
  Require(cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer), "callbacks");
  Require(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "kernels");
  Require(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), "copies");
  Require(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME), "calls");
  return 1;
}
