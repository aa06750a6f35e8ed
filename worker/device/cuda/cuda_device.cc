#include "worker/device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace swarm::device {
namespace {

Status StatusOf(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  const std::string text = std::string(what) + ": " + cudaGetErrorString(error);
  return error == cudaErrorMemoryAllocation ? ResourceExhausted(text) : Internal(text);
}

struct Recorded {
  cudaEvent_t event = nullptr;
  ~Recorded() { cudaEventDestroy(event); }
};

/// Calls completions of one stream, in order, on a thread of its own: functions that a stream calls
/// itself may not use CUDA.
class Completions {
 public:
  explicit Completions(int device) : thread_([this, device] { Run(device); }) {}
  ~Completions() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void Add(Event event, Device::Completion done) {
    {
      std::lock_guard lock(mutex_);
      waiting_.emplace_back(std::move(event), std::move(done));
    }
    changed_.notify_one();
  }

 private:
  void Run(int device) {
    pthread_setname_np(pthread_self(), "device");
    cudaSetDevice(device);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      auto [event, done] = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      // A null event could not be recorded: the device's error comes again.
      const cudaError_t error =
          event == nullptr ? cudaDeviceSynchronize()
                           : cudaEventSynchronize(static_cast<const Recorded*>(event.get())->event);
      done(StatusOf(error, "the device"));
      done = {};
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Event, Device::Completion>> waiting_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when all other members exist
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index)
      : index_(index),
        completions_{Completions(index), Completions(index), Completions(index),
                     Completions(index)} {}
  ~CudaDevice() override {
    for (const cudaStream_t stream : streams_) {
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
  }

  Status Open() {
    for (const Stream stream : {Stream::kIn, Stream::kOut, Stream::kState}) {
      RETURN_IF_ERROR(StatusOf(
          cudaStreamCreateWithFlags(&streams_[Index(stream)], cudaStreamNonBlocking), "a stream"));
    }
    return {};
  }

  Result<Memory> Allocate(Place place, std::size_t bytes) override {
    cudaSetDevice(index_);  // of this thread, which may be another than that of the stage
    void* data = nullptr;
    const cudaError_t error =
        place == Place::kDevice ? cudaMalloc(&data, bytes) : cudaMallocHost(&data, bytes);
    RETURN_IF_ERROR(StatusOf(error, place == Place::kDevice ? "memory of the device for a transfer"
                                                            : "pinned memory for a transfer"));
    return Memory{place, static_cast<std::byte*>(data), bytes, ++slots_};
  }
  void Free(const Memory& memory) override {
    memory.place == Place::kDevice ? cudaFree(memory.data) : cudaFreeHost(memory.data);
  }

  // What the device refuses here, it refuses also when the completion asks for it.
  void Copy(Stream stream, const Memory& to, const Memory& from, std::size_t bytes) override {
    cudaMemcpyAsync(to.data, from.data, bytes,
                    stream == Stream::kIn ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                    streams_[Index(stream)]);
  }
  void Compute(const Access&, const std::function<void()>& work) override { work(); }

  void ComputeBeside(const Access&, std::function<void(NativeStream)> work) override {
    cudaSetDevice(index_);
    work(streams_[Index(Stream::kState)]);
  }

  Event Record(Stream stream) override {
    cudaSetDevice(index_);
    auto recorded = std::make_shared<Recorded>();
    constexpr unsigned kFlags = cudaEventDisableTiming | cudaEventBlockingSync;
    if (cudaEventCreateWithFlags(&recorded->event, kFlags) != cudaSuccess ||
        cudaEventRecord(recorded->event, streams_[Index(stream)]) != cudaSuccess) {
      return nullptr;
    }
    return recorded;
  }
  void Wait(Stream stream, const Event& event) override {
    if (event == nullptr) return;
    cudaStreamWaitEvent(streams_[Index(stream)], static_cast<const Recorded*>(event.get())->event,
                        0);
  }
  void Then(Stream stream, Completion done) override {
    completions_[Index(stream)].Add(Record(stream), std::move(done));
  }

 private:
  static std::size_t Index(Stream stream) { return static_cast<std::size_t>(stream); }

  const int index_;
  std::array<cudaStream_t, kStreamCount> streams_{};  // that of kCompute is null: the default
  std::atomic<Slot> slots_ = 0;
  std::array<Completions, kStreamCount> completions_;
};

}  // namespace

Result<std::shared_ptr<Device>> MakeCudaDevice(int index) {
  RETURN_IF_ERROR(StatusOf(cudaSetDevice(index), "the device"));
  auto device = std::make_shared<CudaDevice>(index);
  RETURN_IF_ERROR(device->Open());
  return std::shared_ptr<Device>(std::move(device));
}

Result<std::uint64_t> FreeCudaMemory(int index) {
  static std::mutex mutex;
  static std::map<int, std::uint64_t> known;
  std::lock_guard lock(mutex);
  const auto found = known.find(index);
  if (found != known.end()) return found->second;
  RETURN_IF_ERROR(StatusOf(cudaSetDevice(index), "the device"));
  std::size_t free = 0, total = 0;
  RETURN_IF_ERROR(StatusOf(cudaMemGetInfo(&free, &total), "the memory of the device"));
  known[index] = free;
  return std::uint64_t{free};
}

Result<std::string> DescribeCudaDevice(int index) {
  cudaDeviceProp gpu{};
  int cuda = 0;
  RETURN_IF_ERROR(StatusOf(cudaGetDeviceProperties(&gpu, index), "the device"));
  RETURN_IF_ERROR(StatusOf(cudaRuntimeGetVersion(&cuda), "CUDA"));
  std::string name = gpu.name;
  std::ranges::replace(name, ' ', '_');
  return name + ":sm_" + std::to_string(gpu.major) + std::to_string(gpu.minor) + ":" +
         std::to_string(gpu.multiProcessorCount) + " cuda=" + std::to_string(cuda);
}

}  // namespace swarm::device
