// A job's programs as processes on this machine.
//
// Each is the leader of its own process group, so that a Ctrl-C at the terminal reaches swarmctl
// alone and an end reaches what the program has started too. The kernel kills them when the thread
// that started them dies, however it dies: nothing outlives swarmctl.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ctl/chaos/slowdown.h"
#include "ctl/run/backend.h"

namespace swarm::ctl {

/// Start must be called on a thread that lives as long as the processes shall.
class ProcessBackend : public Backend {
 public:
  struct Options {
    std::filesystem::path program;  ///< what every worker runs
    std::filesystem::path
        log_directory;  ///< made if missing; NAME.log gets standard output and error
  };

  explicit ProcessBackend(Options options) : options_(std::move(options)) {}
  /// Kills what still runs.
  ~ProcessBackend() override;
  ProcessBackend(const ProcessBackend&) = delete;
  ProcessBackend& operator=(const ProcessBackend&) = delete;

  Status Start(const WorkerSpec& spec) override;
  void Terminate(const std::string& name, Duration grace) override;
  Status Signal(const std::string& name, int signal) override;
  Status Slow(const std::string& name, double factor) override;
  void KillAll() override;
  std::vector<ObservedWorker> Observe() override;

  /// Blocks until a running process has ended, `wake_fd` is readable (-1: none), a grace is over,
  /// or `deadline` is there. Observe() then tells what has changed.
  void Wait(Timepoint deadline, int wake_fd = -1);

  std::filesystem::path LogOf(const std::string& name) const;

 private:
  struct Process {
    ObservedWorker observed;
    pid_t pid = -1;
    int pidfd = -1;
    std::optional<Timepoint> kill_at;
  };

  Process* FindRunning(const std::string& name);
  void Reap(Process& process, bool block);

  const Options options_;
  std::vector<Process> processes_;
  Slowdowns slowdowns_;
};

}  // namespace swarm::ctl
