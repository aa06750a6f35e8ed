// swarmctl run: runs a job on this machine, with the same trainer and workers as in a cluster.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "ctl/exit_codes.h"
#include "ctl/run/home.h"
#include "ctl/run/identity_files.h"
#include "ctl/run/start_note.h"
#include "ctl/run/status_source.h"

namespace swarm::ctl {

/// What a source of status needs to reach the job.
struct ObserverAccess {
  std::string trainer_address;            ///< host:port
  std::optional<IdentityFiles> identity;  ///< of the observer; none: plaintext
  std::string job_uid;
  std::filesystem::path steps_file;
  std::uint64_t max_steps = 0;
};
using StatusSourceFactory =
    std::function<Result<std::unique_ptr<StatusSource>>(const ObserverAccess&)>;

/// Follows OUT/steps.jsonl. Without a connection to the trainer it knows nothing about stages.
Result<std::unique_ptr<StatusSource>> FollowStepsFile(const ObserverAccess& access);

struct RunOptions {
  std::string manifest;
  std::vector<std::string> overrides;
  std::filesystem::path out;             ///< empty: out/NAME
  std::string workers;                   ///< see api/model/layout.h
  std::string devices;                   ///< of each pod, as in cuda:0,cuda:1; empty: no pods
  std::vector<std::string> regions;      ///< in which the workers are, in turns; empty: in none
  std::uint64_t threads_per_worker = 0;  ///< 0: cores / workers, at least 1
  bool resume = false;
  bool json = false;
  bool plaintext = false;
  bool trace_progress = false;
  bool profile = false;              ///< workers write what they did (ctl/profile)
  std::string log_level = "info";    ///< of the programs
  std::string page = "127.0.0.1:0";  ///< where the page to watch the run is served; none: nowhere
  bool moves = true;                 ///< workers move between stages
  std::string listen;  ///< HOST:PORT at which machines elsewhere join; empty: they cannot
  /// With `listen`: of the workers, those that start on this machine; none: all.
  std::optional<std::uint64_t> workers_here;
  Duration joined_validity = std::chrono::hours(1);  ///< of a joined worker's certificate
  std::string chaos;  ///< a script or a file with one (ctl/chaos/chaos.h); empty: no faults
  Duration restart_delay = std::chrono::seconds(1);  ///< from a worker's end to its replacement
  bool restart = true;                               ///< workers that end are replaced
  std::filesystem::path worker_program;              ///< what runs as trainer and as worker
  Duration start_limit = std::chrono::seconds(60);   ///< until the trainer listens
  Duration finish_limit = std::chrono::minutes(5);   ///< from a Ctrl-C to the trainer's end
  StatusSourceFactory status_source = FollowStepsFile;
  OpenHome open_home = nullptr;  ///< needed with `listen`
  StartedBy started_by;
};

/// Runs the job to its end, or until the user interrupts it. Progress goes to `out`: a picture if
/// it is a terminal, else one line for each step; with json, one object on each line. Call it on
/// the main thread, once at a time and before other threads: it takes SIGINT, SIGTERM and SIGHUP.
ExitCode RunJob(const RunOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
