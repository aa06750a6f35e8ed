#include "worker/model/decoder/state_memory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "worker/device/transfers.h"

namespace swarm::model {
namespace {

constexpr std::size_t kAligned = 64;

class HostMemory final : public StateMemory {
 public:
  bool on_host() const override { return true; }
  StateBlock Zeros(std::int64_t count, at::ScalarType type, Term term) override {
    // libtorch's memory is kept (tensor_memory.h).
    if (term == Term::kStep) return {at::zeros({count}, type)};
    const std::size_t bytes = static_cast<std::size_t>(count) * at::elementSize(type);
    const std::size_t size = (bytes / kAligned + 1) * kAligned;
    void* memory = std::aligned_alloc(kAligned, size);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0, size);
    return {at::from_blob(memory, {count}, [](void* m) { std::free(m); }, type)};
  }
  void Compute(const StateAccess&, const std::function<void()>& work) override { work(); }

  Status Bring(const Bytes& elements, at::ScalarType type, const StateAccess&,
               const Use& use) override {
    if (elements.empty()) return {};
    void* data = const_cast<std::byte*>(elements.data());  // NOLINT: only read
    const auto count = static_cast<std::int64_t>(elements.size() / at::elementSize(type));
    use(0, at::from_blob(data, {count}, type));
    return {};
  }
  device::Event Record() override { return nullptr; }
  Status ReadBehind(const device::Event&, const StateBlock& from, std::int64_t first,
                    std::span<std::byte> to) override {
    if (to.empty()) return {};
    const auto* data = static_cast<const std::byte*>(from.numbers.const_data_ptr());
    std::memcpy(to.data(), data + first * static_cast<std::int64_t>(from.numbers.element_size()),
                to.size());
    return {};
  }
  void ComputeBehind(const device::Event&, const StateAccess&,
                     std::function<void(device::NativeStream)>) override {
    SWARM_CHECK(false, "nothing is computed beside the host");
  }
};

/// Bytes that cross at once: enough for the full rate, and a small part of the pinned memory.
constexpr std::size_t kCrossing = std::size_t{16} << 20;
constexpr std::size_t kCrossings = 3;  ///< on their way at once, for one who reads

class DeviceMemory final : public StateMemory {
 public:
  DeviceMemory(at::Device device, std::shared_ptr<device::Device> streams,
               std::shared_ptr<device::Transfers> transfers)
      : device_(device),
        transfers_(std::move(transfers)),
        pool_(std::make_shared<Pool>(std::move(streams))) {}

  bool on_host() const override { return false; }

  StateBlock Zeros(std::int64_t count, at::ScalarType type, Term term) override {
    const std::size_t bytes = static_cast<std::size_t>(count) * at::elementSize(type);
    const device::Memory memory = pool_->Take(std::max<std::size_t>(bytes, 1));
    const auto give_back = [pool = pool_, memory, term](void*) {
      term == Term::kStep ? pool->Return(memory) : pool->streams->Free(memory);
    };
    const StateBlock block{
        at::from_blob(memory.data, {count}, give_back, at::TensorOptions(device_).dtype(type)),
        memory.slot};
    // What the device still does with it stands before.
    Compute({.reads = {}, .writes = {block}}, [&] { block.numbers.zero_(); });
    return block;
  }

  void Compute(const StateAccess& access, const std::function<void()>& work) override {
    pool_->streams->Compute(AccessTo(access), work);
  }

  Status Bring(const Bytes& elements, at::ScalarType type, const StateAccess& access,
               const Use& use) override {
    const std::size_t element = at::elementSize(type);
    for (std::size_t begin = 0; begin < elements.size(); begin += kCrossing) {
      const Bytes some = elements.Slice(begin, std::min(kCrossing, elements.size() - begin));
      const auto count = static_cast<std::int64_t>(some.size() / element);
      RETURN_IF_ERROR(transfers_->ToDevice(
          some,
          [&](const std::byte* from) {
            void* data = const_cast<std::byte*>(from);  // NOLINT: only read
            use(static_cast<std::int64_t>(begin / element),
                at::from_blob(data, {count}, at::TensorOptions(device_).dtype(type)));
          },
          AccessTo(access)));
    }
    return {};
  }

  device::Event Record() override { return pool_->streams->Record(device::Stream::kCompute); }

  void ComputeBehind(const device::Event& event, const StateAccess& access,
                     std::function<void(device::NativeStream)> work) override {
    pool_->streams->Wait(device::Stream::kState, event);
    pool_->streams->ComputeBeside(AccessTo(access), std::move(work));
  }

  Status ReadBehind(const device::Event& event, const StateBlock& from, std::int64_t first,
                    std::span<std::byte> to) override {
    auto* const data = static_cast<std::byte*>(from.numbers.mutable_data_ptr()) +
                       first * static_cast<std::int64_t>(from.numbers.element_size());
    // Few at a time: others who read stand between them, not behind them all.
    std::deque<std::future<Result<Bytes>>> under_way;
    std::byte* out = to.data();
    const auto take = [&]() -> Status {
      ASSIGN_OR_RETURN(const Bytes some, under_way.front().get());
      under_way.pop_front();
      // New pages of the host are slow, too: one thread fills 1.5 GB/s.
      transfers_->Copy(out, some.data(), some.size());
      out += some.size();
      return {};
    };
    for (std::size_t begin = 0; begin < to.size(); begin += kCrossing) {
      if (under_way.size() == kCrossings) RETURN_IF_ERROR(take());
      const std::size_t bytes = std::min(kCrossing, to.size() - begin);
      const auto promise = std::make_shared<std::promise<Result<Bytes>>>();
      under_way.push_back(promise->get_future());
      RETURN_IF_ERROR(transfers_->CopyToHost(
          {device::Place::kDevice, data + begin, bytes, from.slot}, event,
          [promise](Result<Bytes> some) { promise->set_value(std::move(some)); }));
    }
    while (!under_way.empty()) RETURN_IF_ERROR(take());
    return {};
  }

 private:
  /// Memory of the device that was given back, for the next block of that size: to allocate and to
  /// free would wait for the device. Outlived by none of the blocks.
  struct Pool {
    explicit Pool(std::shared_ptr<device::Device> s) : streams(std::move(s)) {}
    ~Pool() {
      for (const auto& [size, memory] : free) streams->Free(memory);
    }

    device::Memory Take(std::size_t bytes) {
      {
        const std::lock_guard lock(mutex);
        const auto found = free.find(bytes);
        if (found != free.end()) {
          const device::Memory memory = found->second;
          free.erase(found);
          return memory;
        }
      }
      Result<device::Memory> memory = streams->Allocate(device::Place::kDevice, bytes);
      if (!memory.ok()) memory = AfterFreeing(bytes);
      TORCH_CHECK_WITH(OutOfMemoryError, memory.ok(), memory.status().message());
      return *memory;
    }
    /// Tries again when what no block has is given back.
    Result<device::Memory> AfterFreeing(std::size_t bytes) {
      const std::lock_guard lock(mutex);
      for (const auto& [size, memory] : free) streams->Free(memory);
      free.clear();
      return streams->Allocate(device::Place::kDevice, bytes);
    }
    void Return(const device::Memory& memory) {
      const std::lock_guard lock(mutex);
      free.emplace(memory.size, memory);
    }

    const std::shared_ptr<device::Device> streams;
    std::mutex mutex;
    std::multimap<std::size_t, device::Memory> free;  ///< by size
  };

  static device::Access AccessTo(const StateAccess& access) {
    device::Access slots;
    for (const StateBlock& block : access.reads) slots.reads.push_back(block.slot);
    for (const StateBlock& block : access.writes) slots.writes.push_back(block.slot);
    return slots;
  }

  const at::Device device_;
  const std::shared_ptr<device::Transfers> transfers_;
  const std::shared_ptr<Pool> pool_;
};

}  // namespace

Status StateMemory::Write(std::span<const float> from, const StateBlock& to, std::int64_t first) {
  return Bring(Bytes::Wrap(from.data(), from.size_bytes(), nullptr), at::kFloat,
               {.reads = {}, .writes = {to}}, [&](std::int64_t i, const at::Tensor& some) {
                 to.numbers.narrow(0, first + i, some.numel()).copy_(some);
               });
}

Status StateMemory::EditOnHost(const StateBlock& block, std::int64_t first, std::int64_t count,
                               Edit edit, const std::function<Status(std::span<float>)>& change) {
  if (on_host()) return change({block.floats() + first, static_cast<std::size_t>(count)});
  std::vector<float> numbers(static_cast<std::size_t>(count));
  if (edit == Edit::kChange) {
    RETURN_IF_ERROR(Read(block, first, std::as_writable_bytes(std::span(numbers))));
  }
  RETURN_IF_ERROR(change(numbers));
  return Write(numbers, block, first);
}

std::unique_ptr<StateMemory> MakeHostMemory() { return std::make_unique<HostMemory>(); }

std::unique_ptr<StateMemory> MakeDeviceMemory(at::Device device,
                                              std::shared_ptr<device::Device> streams,
                                              std::shared_ptr<device::Transfers> transfers) {
  return std::make_unique<DeviceMemory>(device, std::move(streams), std::move(transfers));
}

}  // namespace swarm::model
