#include "worker/trainer/checkpoints/checkpoint_fence.h"

namespace swarm::trainer {

Status CheckpointFence::Take() {
  if (uri_.empty() || fence_) return Status();
  ASSIGN_OR_RETURN(auto storage, storage::Storage::Open(uri_, storage_));
  ASSIGN_OR_RETURN(fence_, Fence::Make(std::move(storage), job_uid_, term_));
  return Status();
}

}  // namespace swarm::trainer
