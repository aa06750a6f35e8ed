// Where a trained model is found, for the commands that use one: the folder of a run, its
// checkpoints, one checkpoint, or a model as Hugging Face keeps it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/checkpoint/tensor.h"
#include "worker/data/tokenizer.h"
#include "worker/model/stage.h"
#include "worker/protocol/ids.h"

namespace swarm::ctl {

/// A model that was found, and whose weights have not been read yet.
struct TrainedModel {
  std::string uri;  ///< where its weights lie: a checkpoint's own folder, or Hugging Face's
  api::LlamaConfig config;
  api::Boundary boundary;                   ///< a plain one where it is no part of the model
  std::uint64_t seed = 0;                   ///< of the job that trained it
  protocol::Version version;                ///< steps that it was trained for; 0 of Hugging Face's
  checkpoint::TensorLookup weights;         ///< by Hugging Face's names; reads as it is asked
  std::optional<api::SwarmJob> job;         ///< if `uri` is of a run's folder: what trained it
  std::optional<api::Tokenizer> tokenizer;  ///< if it is known which

  /// What S3 needs to know, of the job that trained it.
  api::Storage storage() const { return job ? job->spec.storage : api::Storage(); }
  /// Tokens that it was trained to see at a time.
  std::uint64_t sequence_length() const;
};

/// Finds the model at `uri` (a path, file:// or s3://):
///   - a checkpoint (manifest.json) or a Hugging Face folder (config.json);
///   - a folder of checkpoints, of which the newest is taken;
///   - a run's --out folder, whose job.json says where its checkpoints are (else: checkpoints/).
/// Errors: kNotFound, with what was looked for; kInvalidArgument (a config.json of another kind of
/// model); kDataLoss; those of Storage.
Result<TrainedModel> FindModel(const std::string& uri);

/// The whole model as one stage, to compute with on `threads` threads (0: see threads.h).
/// Errors: those of Stage::Create and Stage::Load.
Result<std::unique_ptr<model::Stage>> LoadWholeModel(const TrainedModel& found, int threads);

/// The tokenizer that the flag --tokenizer names: "byte", or the uri of a SentencePiece model;
/// without a flag, the one that is known of the model, or bytes for a vocabulary of 256. None if
/// that leaves it open.
std::optional<api::Tokenizer> ChooseTokenizer(const TrainedModel& found, const std::string& flag);

}  // namespace swarm::ctl
