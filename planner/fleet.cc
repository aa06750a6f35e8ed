#include "planner/fleet.h"

#include <utility>

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
          .upload = machine.uploadMbps * kMegabit,
          .download = machine.downloadMbps * kMegabit,
          .dollars_per_hour = machine.dollarsPerHour,
          .losses_per_hour = machine.lossesPerHour,
          .return_seconds = machine.returnSeconds};
}

Link LinkOf(std::span<const Link> links, std::string_view a, std::string_view b) {
  const auto fits = [](std::string_view pattern, std::string_view name) {
    return pattern == "*" || pattern == name;
  };
  Link found;
  for (const Link& link : links) {
    if ((fits(link.a, a) && fits(link.b, b)) || (fits(link.b, a) && fits(link.a, b))) found = link;
  }
  return found;
}

}  // namespace swarm::planner
