// swarm-worker --role=stage.
#pragma once

#include "base/signals.h"
#include "worker/flags/flags.h"

namespace swarm::roles {

/// What main() does after a worker has ended.
struct StageEnd {
  enum class Then {
    kExit,        ///< end with `exit_code` (base/exit.h)
    kTerminate,   ///< a signal told the worker to leave, and it has: end by SIGTERM
    kStartAgain,  ///< the trainer has sent the worker away before it served: a new process may join
  };
  Then then = Then::kExit;
  int exit_code = 0;
};

/// Runs a worker until it has left its job. One that is sent away with a state comes back in this
/// process as a new incarnation, which has nothing of the earlier one but that state. At the first
/// signal it hands over what it holds and
/// leaves; a second one ends it at once.
StageEnd RunStage(const WorkerFlags& flags, Signals& signals);

}  // namespace swarm::roles
