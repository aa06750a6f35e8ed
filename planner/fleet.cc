#include "planner/fleet.h"

#include <utility>

#include "api/prices.h"
#include "base/gibibytes.h"

namespace swarm::planner {

Machines MachinesOf(std::string name, std::uint64_t count, const api::Machine& machine) {
  constexpr double kTera = 1e12, kMega = 1e6, kMegabit = kMega / 8;
  return {.name = std::move(name),
          .count = count,
          .region = machine.region,
          .flops = machine.teraflops * kTera,
          .memory_bytes = machine.memoryGiB * kGibibyte,
          .device_bytes = machine.deviceMemoryGiB * kGibibyte,
          .disk = machine.diskMBps * kMega,
          .disk_seconds_per_byte = machine.diskSecondsPerGiB / kGibibyte,
          .to_device = machine.toDeviceMBps * kMega,
          .from_device = machine.fromDeviceMBps * kMega,
          .memory_rate = machine.memoryMBps * kMega,
          .update_rate = machine.updateMillions * kMega,
          .upload = machine.uploadMbps * kMegabit,
          .download = machine.downloadMbps * kMegabit,
          .dollars_per_hour = machine.dollarsPerHour,
          .losses_per_hour = machine.lossesPerHour,
          .return_seconds = machine.returnSeconds};
}

double ToDevice(const Machines& group) {
  return group.to_device > 0 ? group.to_device : kDeviceLink;
}

double FromDevice(const Machines& group) {
  return group.from_device > 0 ? group.from_device : kDeviceLink;
}

double MemoryRate(const Machines& group) {
  return group.memory_rate > 0 ? group.memory_rate : kMemoryRate;
}

double UpdateRate(const Machines& group) {
  // A copy of so many bytes reads and writes each.
  return group.update_rate > 0 ? group.update_rate : 2 * MemoryRate(group) / kUpdateBytes;
}

Link LinkOf(std::span<const Link> links, std::string_view a, std::string_view b) {
  Link found;
  for (const Link& link : links) {
    if (api::NamesPair(link.a, link.b, a, b)) found = link;
  }
  return found;
}

}  // namespace swarm::planner
