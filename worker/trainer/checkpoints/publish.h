// Makes a checkpoint visible, after its files are written.
#pragma once

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/data/tokenizer_files.h"

namespace swarm::trainer {

/// Publishes `manifest`, after filling in the fields that follow from the job (name, seed,
/// configuration, whether it has the version before) and writing its tokenizer. Then removes the
/// checkpoints that the job does not keep; a failure to remove them is no error. A manifest that
/// exists already is no error either: any trainer would have written the same. Errors: those of
/// Storage.
Status PublishCheckpoint(storage::Storage& storage, const api::SwarmJob& job,
                         const data::TokenizerFiles& tokenizer, checkpoint::Manifest manifest);

}  // namespace swarm::trainer
