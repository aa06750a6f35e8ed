// What a trainer does before any worker is needed: it opens data and storage, finds the checkpoint
// to begin with, takes the fences, and opens its log. It finds everything that is wrong with a job.
#pragma once

#include <memory>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/trainer/checkpoints/beginning.h"
#include "worker/trainer/checkpoints/checkpoint_fence.h"
#include "worker/trainer/job_data.h"
#include "worker/trainer/log/run_log.h"
#include "worker/trainer/trainer_options.h"

namespace swarm::trainer {

/// Between two tries to reach a storage that does not answer.
inline constexpr Duration kStorageRetry = std::chrono::seconds(2);

struct Preparation {
  api::SwarmJob job;  ///< with the configuration of its model and with its boundaries
  Beginning beginning;
  std::unique_ptr<JobData> data;
  std::unique_ptr<RunLog> log;
  std::unique_ptr<CheckpointFence> fence;
  bool keeps_steps_apart = false;  ///< the checkpoints are not beside steps.jsonl
  protocol::CoordinatorOptions coordinator;
};

/// Waits for a bucket that does not answer, as long as the options say. Errors name what is wrong
/// and where; kAborted (a later trainer exists), kCancelled.
Result<Preparation> Prepare(const TrainerOptions& options);

}  // namespace swarm::trainer
