// Through what a job's programs are started, watched and ended. On this machine they are processes
// (process_backend.h); a cluster's are pods. Values only: decisions about them are made elsewhere
// (supervise.h) and do not know which of the two they steer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace swarm::ctl {

enum class Role { kTrainer, kStage };

/// A program of a job, before it runs.
struct WorkerSpec {
  std::string
      name;  ///< never used twice by one backend, except for a trainer that is started again
  Role role = Role::kStage;
  std::vector<std::string> arguments;  ///< without the program itself
};

enum class Phase { kRunning, kExited };

/// A program of a job, as it is.
struct ObservedWorker {
  std::string name;
  Role role = Role::kStage;
  Phase phase = Phase::kRunning;
  int exit_code = 0;    ///< of an exited one that no signal ended
  int exit_signal = 0;  ///< the signal that ended it; 0: none
  bool operator==(const ObservedWorker&) const = default;

  bool succeeded() const { return phase == Phase::kExited && exit_code == 0 && exit_signal == 0; }
};

/// Used from one thread.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Starts a program. Errors: kAlreadyExists for the name of one that runs, and what keeps the
  /// program from being started (kNotFound: it is not there).
  virtual Status Start(const WorkerSpec& spec) = 0;

  /// Asks a program to end, and ends it by force when `grace` is over. Returns at once; one that
  /// does not run is left alone.
  virtual void Terminate(const std::string& name, Duration grace) = 0;

  /// Sends a signal to a program. Errors: kNotFound (none of this name runs).
  virtual Status Signal(const std::string& name, int signal) = 0;

  /// Makes a program compute `factor` times slower, until it is called with another; 1 is full
  /// speed. Errors: kNotFound (none of this name runs), kUnimplemented (this backend cannot).
  virtual Status Slow(const std::string& name, double factor) = 0;

  /// Ends all programs by force and waits for their end.
  virtual void KillAll() = 0;

  /// All programs that were ever started, in the order of their first start.
  virtual std::vector<ObservedWorker> Observe() = 0;
};

}  // namespace swarm::ctl
