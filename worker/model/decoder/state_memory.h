// The memory of a stage's state: weights, moments and sums. On the host; or on a device, where only
// kernels and copies reach it. What uses it does not know which, but for what costs a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/device/device.h"

namespace swarm::device {
class Transfers;
}

namespace swarm::model {

/// Numbers of a state, flat. Copies refer to the same memory, which goes back with the last of
/// them.
struct StateBlock {
  at::Tensor numbers;     ///< float32 or int64
  device::Slot slot = 0;  ///< names it to the device; 0 on the host

  bool empty() const { return !numbers.defined(); }
  /// On a device for kernels alone, as are the numbers.
  float* floats() const { return numbers.mutable_data_ptr<float>(); }
};

/// What stands before a parameter's name, of its moments (Stage::State).
inline constexpr const char* kFirstMoments = "optimizer.exp_avg.";
inline constexpr const char* kSecondMoments = "optimizer.exp_avg_sq.";

/// Memory of the host that has numbers of a state already, or will have them before a Load, which
/// then finds them in place and copies nothing.
struct StateBlocks {
  std::vector<StateBlock> weights;            ///< as Weights::masters; none: a stage makes its own
  std::map<std::string, StateBlock> moments;  ///< by their names (Stage::State); the same
};

/// What a piece of work touches.
struct StateAccess {
  std::vector<StateBlock> reads, writes;
};

/// Used by the thread that executes the stage. Outlives its blocks.
class StateMemory {
 public:
  virtual ~StateMemory() = default;

  /// Whether the host may touch the numbers at any time.
  virtual bool on_host() const = 0;
  /// kStep: a block of that size is wanted again, so its memory is kept.
  enum class Term { kLong, kStep };
  /// Zeros. Throws c10::OutOfMemoryError or std::bad_alloc, as libtorch does.
  virtual StateBlock Zeros(std::int64_t count, at::ScalarType type, Term term) = 0;
  /// Calls `work` at once. It may touch those numbers: on a device, by kernels that it starts.
  /// Passes exceptions on.
  virtual void Compute(const StateAccess& access, const std::function<void()>& work) = 0;

  /// Calls use(i, some) for the numbers of `type` in `elements`, run by run: `some` are those from
  /// i on, on the device. It may touch what `access` names, as in Compute. Errors:
  /// kResourceExhausted, kInternal (the device fails).
  using Use = std::function<void(std::int64_t first, const at::Tensor& some)>;
  virtual Status Bring(const Bytes& elements, at::ScalarType type, const StateAccess& access,
                       const Use& use) = 0;
  /// Of what has been started so far; null on the host.
  virtual device::Event Record() = 0;
  /// Copies the numbers from `first` on to the host, as they are behind the event, and waits for
  /// them. From any thread. Errors: the same.
  virtual Status ReadBehind(const device::Event& event, const StateBlock& from, std::int64_t first,
                            std::span<std::byte> to) = 0;

  /// Calls `work`, now or later, which starts kernels that touch those numbers behind the event,
  /// beside the computation; ReadBehind that event, on the same thread, reads what they wrote. From
  /// any thread. Only on a device.
  virtual void ComputeBehind(const device::Event& event, const StateAccess& access,
                             std::function<void(device::NativeStream)> work) = 0;

  /// As they are behind what has been started.
  Status Read(const StateBlock& from, std::int64_t first, std::span<std::byte> to) {
    return ReadBehind(Record(), from, first, to);
  }

  /// Writes floats of the host to the numbers from `first` on. Errors: as Bring.
  Status Write(std::span<const float> from, const StateBlock& to, std::int64_t first);
  /// Gives `edit` the numbers [first, first + count) on the host, and takes what it makes of them.
  /// With kOverwrite, it finds anything there. Errors: those of `edit`, and as Bring.
  enum class Edit { kChange, kOverwrite };
  Status EditOnHost(const StateBlock& block, std::int64_t first, std::int64_t count, Edit edit,
                    const std::function<Status(std::span<float>)>& change);
};

std::unique_ptr<StateMemory> MakeHostMemory();
/// Of the device that has the tensors of `device`, and that the transfers reach.
std::unique_ptr<StateMemory> MakeDeviceMemory(at::Device device,
                                              std::shared_ptr<device::Device> streams,
                                              std::shared_ptr<device::Transfers> transfers);

}  // namespace swarm::model
