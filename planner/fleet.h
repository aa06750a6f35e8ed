// The machines that a plan is made for, and what lies between them. Pure values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/swarmjob.h"

namespace swarm::planner {

/// Machines that are alike.
struct Machines {
  std::string name;
  std::uint64_t count = 0;
  std::string region;
  double flops = 0;                  ///< a second, as achieved
  double memory_bytes = 0;           ///< of the host; 0: enough
  double device_bytes = 0;           ///< of the device; 0: it computes in the memory of the host
  double disk = 0;                   ///< bytes a second, to and from; 0: no stage can be on it
  double disk_seconds_per_byte = 0;  ///< of a core, to and from; 0: not counted
  double to_device = 0, from_device = 0;  ///< bytes a second; 0: kDeviceLink
  double memory_rate = 0;                 ///< bytes a second that the host copies; 0: kMemoryRate
  double update_rate = 0;                 ///< parameters a second that it updates; 0: UpdateRate
  double upload = 0, download = 0;        ///< bytes a second of a machine's line; 0: unlimited
  double dollars_per_hour = 0;
  double losses_per_hour = 0;  ///< of one machine
  double return_seconds = 0;   ///< from a loss to a new machine; 0: none comes

  /// Of the memory where it computes; 0: enough.
  double room() const { return device_bytes > 0 ? device_bytes : memory_bytes; }
};

// What is taken where nothing is said (docs/planner.md has the sources).

/// PCIe 4.0 with 16 lanes, 31.5e9 in each direction, and what is reached of it.
inline constexpr double kDeviceLink = 25e9;
/// A few threads that copy.
inline constexpr double kMemoryRate = 10e9;
/// Of an update that waits for memory: a weight, two moments and a gradient are read, three of them
/// written.
inline constexpr double kUpdateBytes = 28;

/// What a machine with a device has, or else the defaults.
double ToDevice(const Machines& group);
double FromDevice(const Machines& group);
double MemoryRate(const Machines& group);
double UpdateRate(const Machines& group);

/// So many machines as a manifest or a fleet file describes them.
Machines MachinesOf(std::string name, std::uint64_t count, const api::Machine& machine);

/// The connection between any two machines of two regions; each pair has its own, in each
/// direction.
struct Link {
  std::string a, b;  ///< regions, or "*" for any
  double round_trip_seconds = 0;
  double rate = 0;              ///< bytes a second; 0: unlimited
  double dollars_per_byte = 0;  ///< of what crosses it; a simulation takes no notice
};

/// The link between two regions: the last that fits counts; none fits: no delay, no limit.
Link LinkOf(std::span<const Link> links, std::string_view a, std::string_view b);

struct Fleet {
  std::vector<Machines> groups;
  std::vector<Link> links;  ///< LinkOf
  std::string trainer_region;
  double detect_seconds = 1.35;  ///< from the loss of a machine to its eviction
};

}  // namespace swarm::planner
