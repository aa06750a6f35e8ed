#include "worker/device/testing/fake_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace swarm::device {

struct FakeDevice::Point {
  Stream stream = Stream::kCompute;
  StreamClocks::Clock clock;
  bool done = false;  // guarded by mutex_
};

FakeDevice::FakeDevice(std::uint64_t seed) : rng_(seed) {
  for (const Stream stream : {Stream::kIn, Stream::kOut, Stream::kState}) {
    queues_[static_cast<std::size_t>(stream)].thread = std::thread([this, stream] { Run(stream); });
  }
  completing_ = std::thread([this] { RunCompletions(); });
}

FakeDevice::~FakeDevice() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (Queue& queue : queues_) {
    if (queue.thread.joinable()) queue.thread.join();
  }
  completing_.join();
}

Duration FakeDevice::DrawDelay() { return std::chrono::microseconds(rng_.Below(300)); }

void FakeDevice::Run(Stream stream) {
  Queue& queue = queues_[static_cast<std::size_t>(stream)];
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queue.work.empty(); });
    if (queue.work.empty()) return;
    std::function<void()> work = std::move(queue.work.front());
    queue.work.pop_front();
    const Duration delay = DrawDelay();
    lock.unlock();
    std::this_thread::sleep_for(delay);
    work();
    work = {};
    lock.lock();
  }
}

void FakeDevice::Append(Stream stream, std::function<void()> work) {
  queues_[static_cast<std::size_t>(stream)].work.push_back(std::move(work));
  changed_.notify_all();
}

void FakeDevice::Await(const Point& point) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return point.done; });
}

void FakeDevice::Note(const Status& status) {
  if (!status.ok()) violations_.push_back(status.message());
}

/// The device's memory that a kernel has named is open to it.
class FakeDevice::Opened {
 public:
  Opened(FakeDevice& device, const Access& access) : device_(device) {
    std::lock_guard lock(device_.mutex_);
    Add(access.reads, false);
    Add(access.writes, true);
    for (const auto& [memory, to_write] : memory_) memory->Open(to_write);
  }
  ~Opened() {
    std::lock_guard lock(device_.mutex_);
    for (const auto& [memory, to_write] : memory_) memory->Close(to_write);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  void Add(const std::vector<Slot>& slots, bool to_write) {
    for (const Slot slot : slots) {
      const auto found = device_.pieces_.find(slot);
      if (found == device_.pieces_.end() || found->second.own == nullptr) continue;
      memory_.emplace_back(found->second.own, to_write);
    }
  }

  FakeDevice& device_;
  std::vector<std::pair<std::shared_ptr<GuardedMemory>, bool>> memory_;
};

Result<Memory> FakeDevice::Allocate(Place place, std::size_t bytes) {
  Piece piece;
  Memory memory{place, nullptr, bytes, 0};
  if (place == Place::kPinned) {
    piece.pinned = std::shared_ptr<std::byte[]>(new std::byte[bytes]);
    memory.data = piece.pinned.get();
    std::memset(memory.data, 0xff, bytes);
  } else {
    piece.own = std::make_shared<GuardedMemory>(bytes);
    memory.data = piece.own->view();
    std::memset(piece.own->own(), 0xff, bytes);
  }
  std::lock_guard lock(mutex_);
  memory.slot = ++slots_;
  pieces_.emplace(memory.slot, std::move(piece));
  return memory;
}

std::byte* FakeDevice::AddressOf(const Memory& memory) const {
  const Piece& piece = pieces_.at(memory.slot);
  return piece.own == nullptr ? memory.data : piece.own->own() + (memory.data - piece.own->view());
}

void FakeDevice::Free(const Memory& memory) {
  std::lock_guard lock(mutex_);
  // Where the host does not know that work is done, freeing waits for the device; so does this.
  pieces_.erase(memory.slot);
}

void FakeDevice::Copy(Stream stream, const Memory& to, const Memory& from, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  Note(clocks_.Run(stream, {.reads = {from.slot}, .writes = {to.slot}}));
  Append(stream, [to = AddressOf(to), from = AddressOf(from), bytes] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
}

void FakeDevice::Compute(const Access& access, const std::function<void()>& work) {
  std::vector<Event> waits;
  {
    std::lock_guard lock(mutex_);
    waits.swap(compute_waits_);
    Note(clocks_.Run(Stream::kCompute, access));
  }
  for (const Event& event : waits) Await(*static_cast<const Point*>(event.get()));
  const Opened opened(*this, access);
  work();
}

void FakeDevice::ComputeBeside(const Access& access, std::function<void(NativeStream)> work) {
  std::lock_guard lock(mutex_);
  Note(clocks_.Run(Stream::kState, access));
  Append(Stream::kState, [this, access, work = std::move(work)] {
    if (!IsThere(access)) return;
    const Opened opened(*this, access);
    work(nullptr);
  });
}

bool FakeDevice::IsThere(const Access& access) {
  std::lock_guard lock(mutex_);
  for (const auto& slots : {access.reads, access.writes}) {
    for (const Slot slot : slots) {
      if (pieces_.contains(slot)) continue;
      violations_.push_back("kernels come to memory " + std::to_string(slot) +
                            " after it was freed");
      return false;
    }
  }
  return true;
}

void FakeDevice::OnHost(const Access& access) {
  std::lock_guard lock(mutex_);
  Note(clocks_.RunOnHost(access));
}

Event FakeDevice::Record(Stream stream) {
  // Kernels are done when they are submitted, but for those that none was submitted behind.
  if (stream == Stream::kCompute) Compute({}, [] {});
  std::lock_guard lock(mutex_);
  auto point = std::make_shared<Point>(Point{stream, clocks_.Record(stream)});
  if (stream == Stream::kCompute) {
    point->done = true;
  } else {
    Append(stream, [this, point] {
      std::lock_guard lock(mutex_);
      point->done = true;
      changed_.notify_all();
    });
  }
  return point;
}

void FakeDevice::Wait(Stream stream, const Event& event) {
  if (event == nullptr) return;
  std::lock_guard lock(mutex_);
  const auto point = std::static_pointer_cast<const Point>(event);
  if (forgotten_ == std::pair(stream, point->stream)) return;
  clocks_.Wait(stream, point->clock);
  if (stream == Stream::kCompute) {
    compute_waits_.push_back(event);
  } else {
    Append(stream, [this, point] { Await(*point); });
  }
}

void FakeDevice::Then(Stream stream, Completion done) {
  Event event = Record(stream);
  std::lock_guard lock(mutex_);
  completions_[static_cast<std::size_t>(stream)].emplace_back(std::move(event), std::move(done));
  changed_.notify_all();
}

void FakeDevice::RunCompletions() {
  std::unique_lock lock(mutex_);
  while (true) {
    std::vector<std::size_t> ready;
    bool waits = false;
    for (std::size_t stream = 0; stream < kStreamCount; ++stream) {
      if (completions_[stream].empty()) continue;
      waits = true;
      const Event& event = completions_[stream].front().first;
      if (static_cast<const Point*>(event.get())->done) ready.push_back(stream);
    }
    if (ready.empty() || holds_completions_) {
      if (stopping_ && !waits) return;
      changed_.wait(lock);
      continue;
    }
    auto& queue = completions_[ready[rng_.Below(ready.size())]];
    auto [event, done] = std::move(queue.front());
    queue.pop_front();
    clocks_.WaitOnHost(static_cast<const Point*>(event.get())->clock);
    const Status status = broken_;
    const Duration delay = DrawDelay();
    lock.unlock();
    std::this_thread::sleep_for(delay);
    done(status);
    done = {};
    lock.lock();
  }
}

void FakeDevice::HoldCompletions(bool hold) {
  std::lock_guard lock(mutex_);
  holds_completions_ = hold;
  changed_.notify_all();
}

std::vector<std::string> FakeDevice::Violations() const {
  std::lock_guard lock(mutex_);
  return violations_;
}

std::size_t FakeDevice::CountPieces() const {
  std::lock_guard lock(mutex_);
  return pieces_.size();
}

void FakeDevice::Break(Status why) {
  std::lock_guard lock(mutex_);
  broken_ = std::move(why);
}

}  // namespace swarm::device
