// A program of a job, the trainer or a worker, as Processes starts and observes it. Values only.
#pragma once

#include <string>
#include <vector>

#include "worker/flags/flags.h"

namespace swarm {

/// A program before it runs.
struct ProgramSpec {
  std::string name;  ///< the same again: the program is started again
  WorkerRole role = WorkerRole::kStage;
  std::vector<std::string> arguments;  ///< without the program itself
};

enum class Phase { kRunning, kExited };

/// A program as it was last observed.
struct ObservedProgram {
  std::string name;
  WorkerRole role = WorkerRole::kStage;
  Phase phase = Phase::kRunning;
  int exit_code = 0;    ///< of a program that has exited; 0 if a signal ended it
  int exit_signal = 0;  ///< the signal that ended it; 0: none
  bool operator==(const ObservedProgram&) const = default;

  bool succeeded() const { return phase == Phase::kExited && exit_code == 0 && exit_signal == 0; }
};

/// "ended with exit code 7", "was ended by signal 9 (Killed)".
std::string DescribeEnd(const ObservedProgram& program);

}  // namespace swarm
