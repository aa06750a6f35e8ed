// swarmctl profile: a few steps of a job on this machine, as a trace and in words.
#pragma once

#include <cstdint>
#include <cstdio>

#include "ctl/exit_codes.h"
#include "ctl/run/run_command.h"

namespace swarm::ctl {

struct ProfileOptions {
  RunOptions run;                  ///< its `out` is not empty
  std::uint64_t steps = 5;         ///< that are told of
  std::uint64_t steps_before = 2;  ///< that are not: the first ones allocate memory
};

/// Runs that many steps of the job, which leave the job's own checkpoints alone, and writes
/// OUT/profile.json. What it shows goes to `out`. Call it as RunJob.
ExitCode ProfileJob(const ProfileOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
