// The files that make a tokenizer: in the folder of a model, in a checkpoint, in an export.
#pragma once

#include <map>
#include <string>

#include "api/swarmjob.h"
#include "base/bytes.h"
#include "base/status.h"
#include "worker/storage/storage.h"

namespace swarm::data {

/// Their names in a folder are those of Hugging Face, whatever they were called where they were
/// read.
struct TokenizerFiles {
  api::TokenizerKind kind = api::TokenizerKind::kAuto;  ///< Auto: there is no tokenizer
  std::map<std::string, Bytes> files;                   ///< by name; none of kinds Auto and Byte
  std::string uri = {};                                 ///< where they were read, for messages

  /// The content of a file, or none.
  const Bytes* Find(const std::string& name) const;
};

/// The tokenizer that a model's folder has: its tokenizer.json, else its tokenizer.model, else kind
/// Auto. Errors: those of Storage.
Result<api::Tokenizer> FindTokenizer(const std::string& folder_uri, const api::Storage& storage);

/// Reads the files of a tokenizer. Errors: kNotFound, and others of Storage; kInvalidArgument
/// (there is no uri, and the kind needs one).
Result<TokenizerFiles> ReadTokenizerFiles(const api::Tokenizer& tokenizer,
                                          const api::Storage& storage);

/// The same files with a tokenizer_config.json and a special_tokens_map.json, as transformers wants
/// them beside a tokenizer.json; and without a generation_config.json, which belongs to a model.
TokenizerFiles ForTransformers(TokenizerFiles files);

/// Writes them below `prefix`, which is empty or ends with '/', such that FindTokenizer finds them.
Status WriteTokenizerFiles(const TokenizerFiles& files, storage::Storage& storage,
                           const std::string& prefix);

}  // namespace swarm::data
