// swarm-worker --devices: the launcher of a pod. It starts a worker for each device, watches them,
// and serves their pages as one program.
#pragma once

#include "base/signals.h"
#include "worker/flags/flags.h"

namespace swarm::pod {

struct PodEnd {
  bool by_signal = false;  ///< a signal told the pod to leave, and its workers have left
  int exit_code = 0;       ///< else: of the program
};

/// Runs until no worker is left. The first signal lets all workers leave in order, at most for
/// --drain-seconds and a little more; a second one lets them leave at once. Call it on the main
/// thread: the workers die with it, however it ends.
PodEnd RunPod(const WorkerFlags& flags, Signals& signals);

}  // namespace swarm::pod
