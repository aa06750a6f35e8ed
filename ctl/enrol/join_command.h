// swarmctl join: this machine becomes a worker of a run elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "base/time.h"
#include "ctl/exit_codes.h"

namespace swarm::ctl {

struct JoinOptions {
  std::string token;           ///< "-": standard input has it, which no other user sees
  std::filesystem::path out;   ///< empty: out/JOB-WORKER
  std::string device = "cpu";  ///< or "cuda:N"
  std::string devices;         ///< a worker on each, as in cuda:0,cuda:1; empty: one, on `device`
  std::uint64_t threads = 0;   ///< 0: the usable processors
  std::string listen;          ///< host:port; empty: the address with which this machine calls home
  bool dial_only = false;      ///< nobody can dial this machine
  std::string region;          ///< empty: the worker's default
  std::string log_level = "info";
  bool probe = true;                                  ///< measure this machine first
  Duration drain = std::chrono::seconds(25);          ///< from Ctrl-C to the end of the worker
  Duration home_patience = std::chrono::seconds(30);  ///< for the first answer of home
  Duration patience = std::chrono::hours(24);  ///< for home that answers no more, as its token has
  std::filesystem::path worker_program;
  std::filesystem::path compute_program;  ///< swarmctl-compute
};

/// Joins, and works until the job is over, the user interrupts it, or home revokes it. What happens
/// goes to `out` in words. Call it on the main thread, before other threads: it takes SIGINT,
/// SIGTERM and SIGHUP.
ExitCode JoinRun(const JoinOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
