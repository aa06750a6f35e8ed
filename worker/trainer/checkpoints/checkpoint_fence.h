// The fence of a job's checkpoints, which is taken as soon as their storage answers.
#pragma once

#include <memory>
#include <string>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/protocol/ids.h"
#include "worker/trainer/checkpoints/fence.h"

namespace swarm::trainer {

/// Calls may come from any thread, one at a time.
class CheckpointFence {
 public:
  CheckpointFence(const api::Spec& spec, std::string job_uid, protocol::Term term)
      : uri_(spec.checkpoint.uri),
        storage_(spec.storage),
        job_uid_(std::move(job_uid)),
        term_(term) {}

  /// Does nothing if it is taken, or if the job has no checkpoints. If several trainers call it at
  /// once, the last one in the order of the fence goes on. Errors: those of Fence::Make.
  Status Take();
  /// As Fence::Check; ok while it is not taken.
  Status Check() { return fence_ ? fence_->Check() : Status(); }

 private:
  const std::string uri_;
  const api::Storage storage_;
  const std::string job_uid_;
  const protocol::Term term_;
  std::unique_ptr<Fence> fence_;
};

}  // namespace swarm::trainer
