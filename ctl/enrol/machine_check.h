// What `swarmctl join` finds out about its machine before it starts a worker there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/signals.h"
#include "base/status.h"

namespace swarm::ctl {

struct MachineCheck {
  std::string job;                ///< as home tells it (api/job_for_machines.h); empty: not told
  std::string home;               ///< its address
  std::filesystem::path folder;   ///< of the join
  std::filesystem::path program;  ///< swarmctl-compute
  std::string name;               ///< of the machine in a fleet
  std::string region;             ///< empty: not said
  std::string device;             ///< of one worker
  std::uint64_t workers = 1;      ///< that share the memory of this machine
  std::uint64_t threads = 1;      ///< of one worker
};

/// Measures the machine by the job's model, as a worker of it computes (`swarmctl probe`): writes
/// manifest.json and fleet.yaml to the folder, and `say`s in a line what the machine is. Takes
/// seconds, at most a minute. What cannot be measured is said, and is no error.
///
/// Errors: kFailedPrecondition (a stage of the job has no room here), kCancelled (a signal came).
Status CheckMachine(const MachineCheck& check, Signals& signals,
                    const std::function<void(const std::string& text)>& say);

}  // namespace swarm::ctl
