// A device that computes beside the host: four streams of work, memory for transfers, and events
// that order them. Work that stands in one stream is done in order; streams run at the same time
// unless one waits for an event of another. Nothing here waits for the device.
//
// One thread, the one that executes the stage, submits work; others may append to kState, behind
// events that they were given. Completions come on threads of the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"

namespace swarm::device {

enum class Stream : std::uint8_t {
  kCompute,
  kIn,   ///< copies to the device
  kOut,  ///< copies of results to the host
  /// Copies of sums and of the state to the host, and kernels that measure them. Not in kOut, where
  /// they would stand behind results that are not computed yet.
  kState,
};
inline constexpr std::size_t kStreamCount = 4;

/// A point in a stream: all work that stood in it by then. It stays that point when others are
/// recorded later. An event that was never recorded is of no work.
using Event = std::shared_ptr<const void>;

enum class Place : std::uint8_t {
  kDevice,
  kPinned,  ///< of the host, which the device copies from and to by itself
};

/// Names a piece of memory in the rules of order; never used again for another piece.
using Slot = std::uint64_t;

struct Memory {
  Place place = Place::kDevice;
  std::byte* data = nullptr;
  std::size_t size = 0;
  Slot slot = 0;
};

/// The memory for transfers that a piece of work touches. All other memory belongs to the compute
/// stream alone.
struct Access {
  std::vector<Slot> reads, writes;
};

/// A stream as the device's own library has it; null where there is none.
using NativeStream = void*;

class Device {
 public:
  /// Called once, on a thread of the device. An error means that the device is of no use any more:
  /// what stood in its streams may not have been done.
  using Completion = std::function<void(const Status&)>;

  virtual ~Device() = default;

  /// Slow: keep what it gives. Errors: kResourceExhausted.
  virtual Result<Memory> Allocate(Place place, std::size_t bytes) = 0;
  /// Requires that no work in a stream touches it.
  virtual void Free(const Memory& memory) = 0;

  /// Appends to a stream: to kIn from pinned to device memory, to kOut or kState from device to
  /// pinned memory.
  virtual void Copy(Stream stream, const Memory& to, const Memory& from, std::size_t bytes) = 0;
  /// Calls `work` at once. Kernels that it starts stand in the compute stream.
  virtual void Compute(const Access& access, const std::function<void()>& work) = 0;

  /// Appends kernels to kState: calls `work`, now or when it is their turn, with that stream, in
  /// which it starts them.
  virtual void ComputeBeside(const Access& access,
                             std::function<void(NativeStream stream)> work) = 0;

  /// The host itself reads or writes pinned memory now. Does nothing, but where the order is
  /// checked.
  virtual void OnHost(const Access&) {}

  virtual Event Record(Stream stream) = 0;
  /// What is appended to the stream from now on is done behind the event.
  virtual void Wait(Stream stream, const Event& event) = 0;
  /// Calls `done` when all that stands in the stream is done. Of one stream, in order.
  virtual void Then(Stream stream, Completion done) = 0;
};

}  // namespace swarm::device
