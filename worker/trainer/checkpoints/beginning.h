// The state that a job begins with: its initial weights, or the newest checkpoint.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/hash.h"
#include "base/status.h"
#include "worker/protocol/ids.h"

namespace swarm::trainer {

struct Beginning {
  protocol::Generation generation;
  protocol::Version version;
  std::string checkpoint_uri;  ///< of the checkpoint's own folder; empty: the initial weights
  /// Of the checkpoint: its boundaries, if they are a part of the model.
  std::optional<api::Boundary> boundary;
  /// Of the checkpoint: its model, as Hugging Face's config.json.
  std::string config_json;
  /// Checkpoints that are newer, but damaged, and were set aside now; for people.
  std::vector<std::string> damaged = {};
  /// Of the checkpoint: its adapters; of rank 0 if it has none.
  api::Lora lora = {};
  Digest manifest = {};  ///< of the checkpoint's manifest.json
};

/// How much of a checkpoint is read before a job begins with it.
enum class Look : std::uint8_t {
  kManifest,  ///< workers check the files as they load them
  kFiles,     ///< all files: a worker could not load one
};

/// With `resume`, the newest intact checkpoint in spec.checkpoint.uri, or if there is none, in the
/// copies of the regions, or else the initial weights. One copy of each file that is intact is
/// enough. Sets damaged ones aside (checkpoint::SetAside). Errors: those of Storage;
/// kFailedPrecondition for a checkpoint of another seed, one of step mode Sync for a job in
/// Delayed, and, without `resume`, a folder that holds checkpoints already (those of this job could
/// not be told from them).
Result<Beginning> FindBeginning(const api::SwarmJob& job, bool resume, Look look);

/// Fills in the layers of the boundaries: those of the checkpoint that the job begins with, else
/// the cuts into `stages` stages. Requires that spec.model.config is known (ResolveModel). Errors:
/// kFailedPrecondition where the checkpoint's model differs from the job's in its boundaries or
/// adapters, or in a key that both configs have (max_position_embeddings may change, and so may
/// initializer_range, except with Subspace); kInvalidArgument where it cannot be cut into so many
/// stages.
Status ResolveBoundary(api::SwarmJob* job, std::uint64_t stages, const Beginning& beginning);

/// Durably begins a generation of the job with the newest intact checkpoint (or the initial
/// weights): `wanted`, or the first generation after it that was not begun yet. If several trainers
/// ask for the same generation, one gets it. For a job without checkpoints, `folder` keeps the
/// record. Errors: those of Storage; as FindBeginning.
Result<Beginning> BeginGeneration(const api::SwarmJob& job, const std::string& folder,
                                  protocol::Generation wanted, protocol::Term term, Look look);

}  // namespace swarm::trainer
