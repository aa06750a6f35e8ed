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

/// A model that was found. Its weights have not been read yet.
struct TrainedModel {
  std::string uri;  ///< of the folder with its weights: a checkpoint or a Hugging Face folder
  api::DecoderConfig config;
  api::Boundary boundary;  ///< plain if it is not part of the model
  api::Lora lora;
  std::uint64_t seed = 0;                   ///< of the job that trained it
  protocol::Version version;                ///< steps of training; 0 for a Hugging Face folder
  checkpoint::TensorLookup weights;         ///< by Hugging Face's names; reads on demand
  std::optional<api::SwarmJob> job;         ///< the job that trained it, if `uri` is a run's folder
  std::optional<api::Tokenizer> tokenizer;  ///< if known; kind Auto: its data were ids

  /// The S3 settings of the job that trained it.
  api::Storage storage() const { return job ? job->spec.storage : api::Storage(); }
  /// Tokens of a sequence in training.
  std::uint64_t sequence_length() const;
};

/// Finds the model at `uri` (a path, file:// or s3://):
///   - a checkpoint (manifest.json) or a Hugging Face folder (config.json);
///   - a folder of checkpoints: the newest is used;
///   - a run's --out folder, whose job.json says where its checkpoints are (else: checkpoints/).
/// Errors: kNotFound, with what FindModel looked for; kInvalidArgument (the config.json of another
/// kind of model); kDataLoss; those of Storage.
Result<TrainedModel> FindModel(const std::string& uri);

/// The whole model as one stage that computes on `threads` threads (0: see threads.h), or on
/// another device. Errors: those of Stage::Create and Stage::Load.
Result<std::unique_ptr<model::Stage>> LoadWholeModel(const TrainedModel& found, int threads,
                                                     const std::string& device);

/// The tokenizer that the flag --tokenizer names: "byte", or a uri as in a manifest. Without the
/// flag, the model's known tokenizer, or bytes for a vocabulary of 256. Kind Auto: none.
api::Tokenizer ChooseTokenizer(const TrainedModel& found, const std::string& flag);

}  // namespace swarm::ctl
