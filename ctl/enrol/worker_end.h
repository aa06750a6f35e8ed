// What `swarmctl join` does when its worker has ended, and when home does not help. Pure.
#pragma once

#include <string>

#include "base/status.h"
#include "ctl/exit_codes.h"
#include "worker/processes/program.h"

namespace swarm::ctl {

struct AfterWorker {
  bool again = false;             ///< start it again, after a pause
  ExitCode code = ExitCode::kOk;  ///< else end with this
  std::string words;              ///< for the user
};

/// `leaving`: the user has asked the worker to leave. `home_lost`: home does not answer now, so a
/// worker that has heard no trainer may hear one later.
AfterWorker DecideAfterWorker(const ObservedProgram& worker, bool leaving, bool home_lost = false);

struct AfterRefusal {
  bool again = false;             ///< ask home again, after a pause
  ExitCode code = ExitCode::kOk;  ///< else end with this
  std::string words;              ///< for the user
};

/// Home has not done what `worker`'s machine has asked for. `enrolling`: for a certificate with
/// its token, as the one before has ended; else to stay.
AfterRefusal DecideAfterRefusal(const Status& why, const std::string& worker, bool enrolling);

}  // namespace swarm::ctl
