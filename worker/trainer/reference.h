// The job in one process without a network, as the reference for a swarm's losses. The same
// data order, stage code, clipping and schedule; no routes, no messages.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/protocol/messages/control.h"

namespace swarm::trainer {

struct ReferenceOptions {
  api::SwarmJob job;
  std::string out_dir;  ///< steps.jsonl, events.jsonl; empty: none
  int threads = 1;
  std::string device = "cpu";  ///< or "cuda:N"
  bool resume = false;
  /// Called after every step; false: stop here (a checkpoint is written).
  std::function<bool(const protocol::CommitRecord& record, double seconds)> on_step;
  /// Called with the mean validation loss, in nats per token, of the newest weights.
  std::function<void(double loss)> on_validation;
};

/// Trains to maxSteps and writes checkpoints as the job says; one that cannot be written is missed
/// with a warning, except for the last, which is an error. Errors: of the job, its data, model and
/// storage; kFailedPrecondition (the job's checkpoints are there already and `resume` is not asked
/// for).
Status TrainReference(const ReferenceOptions& options);

}  // namespace swarm::trainer
