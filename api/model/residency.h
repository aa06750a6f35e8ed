// Where the masters and moments of a stage are: on its device, if that has room, or in the memory
// of the host. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/swarmjob.h"
#include "base/status.h"

namespace swarm::api {

/// About the bytes of a stage on its device, of so many parameters, without graphs: operands,
/// accumulators of the open steps and fresh gradients; with kResident also masters and moments.
std::uint64_t DeviceBytes(const Spec& spec, Residency residency, std::uint64_t trained,
                          std::uint64_t frozen);

/// The share of a device's free memory that stays free: for libraries, the update's buffers and
/// gaps.
inline constexpr double kDeviceSpare = 0.1;

struct ResidencyChoice {
  Residency residency = Residency::kResident;
  std::string reason;  ///< for the log
  bool operator==(const ResidencyChoice&) const = default;
};

/// What the job says; or else kResident, if that fits beside the graphs that a worker must be able
/// to hold and the update is the device's, and kOffload if not. `device_bytes`: free on the device;
/// absent: it computes in the memory of the host; kDeviceSpare of them stays free. Requires a valid
/// job with a model that is read. Errors: kResourceExhausted (no room, with figures).
Result<ResidencyChoice> ChooseResidency(const SwarmJob& job, std::uint64_t trained,
                                        std::uint64_t frozen,
                                        std::optional<std::uint64_t> device_bytes);

/// Where the state of a stage with kSwap is beside a device that has memory of its own.
struct SwapRoom {
  bool state_in_memory = false;  ///< of the host; if not, in a file
  std::uint64_t memory = 0;      ///< bytes for segments and the inputs that tasks keep
  bool operator==(const SwapRoom&) const = default;
};

/// In the memory of the host, if that has room for it and leaves enough to move it; for segments at
/// most pipeline.memory.device, and half of what is free on the device, since tasks compute there.
/// `host` and `device_bytes`: what the stage may use. Requires a valid job with a model that is
/// read.
SwapRoom ChooseSwapRoom(const SwarmJob& job, std::uint64_t trained, std::uint64_t frozen,
                        std::uint64_t host, std::uint64_t device_bytes);

}  // namespace swarm::api
