// What `swarmctl join` does when its worker has ended. Pure.
#pragma once

#include <string>

#include "ctl/exit_codes.h"
#include "worker/processes/program.h"

namespace swarm::ctl {

struct AfterWorker {
  bool again = false;             ///< start it again, after a pause
  ExitCode code = ExitCode::kOk;  ///< else end with this
  std::string words;              ///< for the user
};

/// `leaving`: the user has asked the worker to leave.
AfterWorker DecideAfterWorker(const ObservedProgram& worker, bool leaving);

}  // namespace swarm::ctl
