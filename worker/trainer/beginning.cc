#include "worker/trainer/beginning.h"

#include "worker/state/checkpoint.h"

namespace swarm::trainer {

Result<Beginning> FindBeginning(const api::SwarmJob& job, bool resume) {
  const api::Spec& spec = job.spec;
  const std::string& uri = spec.checkpoint.uri;
  if (uri.empty()) return Beginning();
  ASSIGN_OR_RETURN(const auto storage, state::Storage::Open(uri, spec.storage));
  if (!resume) {
    // A storage that cannot be reached now costs checkpoints later, not the training.
    const auto there = state::ListCheckpoints(*storage);
    if (!there.ok() || there->empty()) return Beginning();
    return FailedPrecondition(uri +
                              " holds checkpoints already: go on from them with --resume, or give"
                              " another spec.checkpoint.uri");
  }
  const auto manifest = state::FindLatest(*storage);
  if (manifest.status().code() == StatusCode::kNotFound) return Beginning();
  if (!manifest.ok()) return manifest.status();
  if (manifest->seed != spec.training.seed) {
    return FailedPrecondition("the checkpoint in " + uri + " was trained with seed " +
                              std::to_string(manifest->seed) + ", the job says " +
                              std::to_string(spec.training.seed));
  }
  if (spec.training.stepMode == api::StepMode::kDelayed && !manifest->previous &&
      manifest->version.value > 0) {
    return FailedPrecondition("the checkpoint in " + uri +
                              " was made in step mode Sync; Delayed needs the version before too");
  }
  const state::CheckpointId id{manifest->generation, manifest->version};
  return Beginning{manifest->generation, manifest->version, uri + "/" + id.Folder()};
}

}  // namespace swarm::trainer
