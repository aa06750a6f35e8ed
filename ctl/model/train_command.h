// swarmctl train: a job in this one process, without any network. The yardstick for swarmctl run,
// and the way to train what needs no swarm.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "ctl/exit_codes.h"

namespace swarm::ctl {

struct TrainOptions {
  std::string manifest;
  std::vector<std::string> overrides;
  std::filesystem::path out;  ///< empty: out/NAME
  int threads = 0;            ///< 0: see threads.h
  bool resume = false;
  bool json = false;
};

/// Trains the job to its end, or until the first Ctrl-C: the step is then finished and a checkpoint
/// written. The same files and the same progress as RunJob's (run_command.h). Call it on the main
/// thread, once at a time: it takes the process's SIGINT, SIGTERM and SIGHUP, of which the second
/// ends the process with ExitCode::kKilled.
ExitCode TrainJob(const TrainOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
