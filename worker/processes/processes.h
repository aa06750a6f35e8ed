// The programs of a job as processes of this one: of swarmctl, or of the launcher of a pod.
//
// Each process leads a process group of its own: a Ctrl-C at the terminal reaches this process
// alone, and ending a program also ends what the program has started. The kernel kills the
// processes when the thread that started them dies, so nothing outlives it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "worker/processes/program.h"
#include "worker/processes/slowdown.h"

namespace swarm {

/// Used from one thread. The processes die with that thread.
class Processes {
 public:
  struct Options {
    std::filesystem::path program;        ///< what every process runs
    std::filesystem::path log_directory;  ///< NAME.log gets standard output and error; made if
                                          ///< missing. Empty: they go where this process's go
  };

  explicit Processes(Options options) : options_(std::move(options)) {}
  /// Kills what still runs.
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Starts a program. Errors: kAlreadyExists (one of this name runs), kNotFound (there is no
  /// program to run), kPermissionDenied, kUnavailable (the log cannot be written),
  /// kResourceExhausted.
  Status Start(const ProgramSpec& spec);

  /// Sends SIGTERM, and SIGKILL when `grace` is over. Returns at once. A program that does not run
  /// is left alone.
  void Terminate(const std::string& name, Duration grace);

  /// Errors: kNotFound (no program of this name runs).
  Status Signal(const std::string& name, int signal);

  /// Makes a program compute `factor` times slower until the next call for it; 1 is full speed.
  /// Errors: kNotFound (no program of this name runs).
  Status Slow(const std::string& name, double factor);

  /// Kills all programs and waits for their end.
  void KillAll();

  /// All programs that were ever started, in the order of their first start.
  std::vector<ObservedProgram> Observe();

  /// Blocks until a program has ended, `wake_fd` is readable (-1: none), a grace period ends, or
  /// `deadline` has come. Observe() then shows what has changed.
  void Wait(Timepoint deadline, int wake_fd = -1);

  std::filesystem::path LogOf(const std::string& name) const;

 private:
  struct Process {
    ObservedProgram observed;
    pid_t pid = -1;
    int pidfd = -1;
    std::optional<Timepoint> kill_at;
  };

  Process* FindRunning(const std::string& name);
  /// -1, with errno: it cannot be written, or there is none.
  int OpenLog(const std::string& name) const;
  void Reap(Process& process, bool block);

  const Options options_;
  std::vector<Process> processes_;
  Slowdowns slowdowns_;
};

}  // namespace swarm
