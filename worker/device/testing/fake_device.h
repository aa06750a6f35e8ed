// A device made of threads of the host, for tests: its copies and completions come late, by delays
// that a seed draws, in any order that the events allow. Kernels run when they are submitted,
// behind the events that the compute stream waits for. It keeps the clocks of stream_clocks.h, so
// it finds a wait that is missing also when nothing goes wrong. New memory is full of NaNs.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "worker/device/device.h"
#include "worker/device/stream_clocks.h"
#include "worker/device/testing/guarded_memory.h"

namespace swarm::device {

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(std::uint64_t seed);
  /// Does what stands in the streams first.
  ~FakeDevice() override;

  Result<Memory> Allocate(Place place, std::size_t bytes) override;
  void Free(const Memory& memory) override;
  void Copy(Stream stream, const Memory& to, const Memory& from, std::size_t bytes) override;
  void Compute(const Access& access, const std::function<void()>& work) override;
  void ComputeBeside(const Access& access, std::function<void(NativeStream)> work) override;
  void OnHost(const Access& access) override;
  Event Record(Stream stream) override;
  void Wait(Stream stream, const Event& event) override;
  void Then(Stream stream, Completion done) override;

  /// The order that was not kept, in words; empty if all was right.
  std::vector<std::string> Violations() const;
  /// Pieces of memory that were not freed.
  std::size_t CountPieces() const;
  /// A defect on purpose: the stream does not wait for events of the other.
  void ForgetWaits(Stream stream, Stream other) { forgotten_ = {stream, other}; }
  /// Completions wait until they are let go; the streams go on.
  void HoldCompletions(bool hold);
  /// The device falls off: completions say why.
  void Break(Status why);

 private:
  struct Point;
  /// One of the two.
  struct Piece {
    std::shared_ptr<std::byte[]> pinned;
    std::shared_ptr<GuardedMemory> own;
  };
  class Opened;
  struct Queue {
    std::deque<std::function<void()>> work;
    std::thread thread;
  };
  void Append(Stream stream, std::function<void()> work);
  void Run(Stream stream);
  void RunCompletions();
  /// Blocks until the event's work is done.
  void Await(const Point& point);
  void Note(const Status& status);
  /// Whether none of it was freed; notes it if so.
  bool IsThere(const Access& access);
  /// Where the device itself touches it.
  std::byte* AddressOf(const Memory& memory) const;
  Duration DrawDelay();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Rng rng_;
  StreamClocks clocks_;
  std::array<Queue, kStreamCount> queues_;
  std::array<std::deque<std::pair<Event, Completion>>, kStreamCount> completions_;
  std::thread completing_;
  bool holds_completions_ = false;
  std::map<Slot, Piece> pieces_;
  Slot slots_ = 0;
  std::vector<Event> compute_waits_;
  std::vector<std::string> violations_;
  std::optional<std::pair<Stream, Stream>> forgotten_;
  Status broken_;
  bool stopping_ = false;
};

}  // namespace swarm::device
