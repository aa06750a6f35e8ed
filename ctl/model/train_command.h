// swarmctl train: trains a job in this process, without workers and network. It is the reference
// for swarmctl run, and the way to train a model that needs no swarm.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "ctl/exit_codes.h"
#include "ctl/run/start_note.h"

namespace swarm::ctl {

struct TrainOptions {
  std::string manifest;
  std::vector<std::string> overrides;
  std::filesystem::path out;   ///< empty: out/NAME
  int threads = 0;             ///< 0: see threads.h
  std::string device = "cpu";  ///< or "cuda:N"
  bool resume = false;
  bool json = false;
  StartedBy started_by;
};

/// Trains the job to its end, or until the first Ctrl-C; it then finishes the step and writes a
/// checkpoint. Files and progress are as RunJob's (run_command.h). Call it on the main thread, once
/// at a time and before other threads: it takes SIGINT, SIGTERM and SIGHUP. The second of these
/// signals ends the process with ExitCode::kKilled.
ExitCode TrainJob(const TrainOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
