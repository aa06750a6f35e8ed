// How fast bytes cross between the memory of the host and that of a device.
#pragma once

#include "worker/device/device.h"

namespace swarm::device {

/// Bytes a second, from and to pinned memory.
struct CopyRates {
  double to_device = 0, from_device = 0;
};

/// Copies for about so many seconds in each direction, one after the other. Waits for the device,
/// which nothing else should use. Errors: those of the device.
Result<CopyRates> MeasureCopies(Device& device, double seconds);

}  // namespace swarm::device
