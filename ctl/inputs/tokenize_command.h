// swarmctl tokenize: makes shards of token ids of text and JSON lines, once, before training.
#pragma once

#include <cstdio>
#include <string>

#include "ctl/exit_codes.h"
#include "worker/data/documents/encode_file.h"

namespace swarm::ctl {

struct TokenizeOptions {
  std::string data;       ///< as FindDataFiles takes it
  std::string tokenizer;  ///< uri, as in a manifest
  std::string out;        ///< path or uri of the folder of the shards
  data::EncodeOptions documents;
};

/// Writes NAME.bin for each file NAME of the data, and the tokenizer beside the shards. Files are
/// encoded side by side on all cores; a line on `err` tells of each. A shard is written whole or
/// not at all, so the same command goes on where an earlier one ended; another command for the same
/// folder is refused.
ExitCode TokenizeData(const TokenizeOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
