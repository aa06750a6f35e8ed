// Finds work that does not wait for what it needs, by clocks: not by the luck of a race that
// happens. Each stream counts its work, and knows how far it is behind each other stream. A read
// must be behind the last write of the same memory, a write behind that and all reads since.
// The host takes part as one more stream, of what it does with pinned memory.
//
// Pure; not thread-safe. The idea is that of torch/cuda/_sanitizer.py.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "worker/device/device.h"

namespace swarm::device {

class StreamClocks {
 public:
  /// How much of each stream's work is done for certain; the host's comes last.
  using Clock = std::array<std::uint64_t, kStreamCount + 1>;

  /// The host appends work to a stream. kFailedPrecondition: it may run before what it needs; the
  /// message names the memory and both streams.
  Status Run(Stream stream, const Access& access);
  /// The host itself reads or writes. Errors: as Run.
  Status RunOnHost(const Access& access);

  Clock Record(Stream stream) const { return clocks_[Index(stream)]; }
  void Wait(Stream stream, const Clock& event);
  /// The host has learned that the event's work is done.
  void WaitOnHost(const Clock& event);
  /// The memory is given back: work that touches it must be done, as far as the host knows. Errors:
  /// as Run.
  Status Forget(Slot slot);

 private:
  static constexpr std::size_t kHost = kStreamCount;
  struct Point {
    std::size_t stream = 0;
    std::uint64_t count = 0;  ///< 0: none
  };
  struct Uses {
    Point write;
    Clock reads{};  ///< since the last write, by stream
  };
  static std::size_t Index(Stream stream) { return static_cast<std::size_t>(stream); }
  Status RunAs(std::size_t stream, const Access& access);
  Status CheckWrite(std::size_t stream, Slot slot, const Uses& uses) const;
  Status CheckRead(std::size_t stream, Slot slot, const Uses& uses) const;

  std::array<Clock, kStreamCount + 1> clocks_{};
  std::map<Slot, Uses> uses_;
};

}  // namespace swarm::device
