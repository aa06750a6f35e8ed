// The contents of a checkpoint. A checkpoint exists from the moment its manifest does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/protocol/ids.h"
#include "worker/protocol/messages/control.h"

namespace swarm::checkpoint {

/// The version of the layout that this program writes; a higher one is refused.
inline constexpr std::uint64_t kManifestFormat = 1;

/// Of the file, in the checkpoint's folder.
inline constexpr const char* kManifestName = "manifest.json";

/// Manifest::tokenizer where the data were ids.
inline constexpr const char* kNoTokenizer = "None";

struct Manifest {
  std::string job_name;
  std::string job_uid;
  protocol::Generation generation;  ///< that the state was trained in
  protocol::Term term;              ///< of the trainer that wrote this
  protocol::Version version;        ///< of the state; also the next step to train
  std::uint64_t seed = 0;           ///< of the data order
  std::uint64_t stage_count = 0;    ///< when it was written; any number can read it
  bool previous = false;            ///< the weights of version - 1 are there too (Delayed mode)
  std::string config_json;          ///< the model, as Hugging Face's config.json
  /// The boundaries, with their layers, as in a job; empty unless they are a part of the model.
  std::string boundary_json;
  std::string lora_json;  ///< the adapters, as in a job; empty: none
  /// What made the job's ids, by the name of its kind in a job; None: the data were ids. Its files
  /// lie beside the manifest. Empty in manifests of programs that did not write it.
  std::string tokenizer;
  std::vector<protocol::CheckpointFile> files;
  /// Tensor name to index in files. PublishManifest fills it in.
  std::map<std::string, std::uint64_t> tensors;
  /// Of the text that it was read from, which all copies of the checkpoint have; else zero.
  Digest digest = {};
};

/// JSON, indented. Errors: kInvalidArgument (config_json is no JSON object, text that is not
/// UTF-8).
Result<Bytes> EncodeManifest(const Manifest& manifest);
/// Errors: kDataLoss (not the JSON of a manifest), kFailedPrecondition (a newer format).
Result<Manifest> DecodeManifest(const Bytes& text);

}  // namespace swarm::checkpoint
