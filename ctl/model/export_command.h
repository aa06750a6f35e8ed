// swarmctl export: a trained model as a Hugging Face folder.
#pragma once

#include <cstdio>
#include <string>

#include "ctl/exit_codes.h"

namespace swarm::ctl {

struct ExportOptions {
  std::string model;      ///< as FindModel takes it
  std::string out;        ///< path or uri of a folder that is empty or not there yet
  std::string tokenizer;  ///< see ChooseTokenizer; a SentencePiece model comes along
  bool json = false;
};

/// Writes what transformers' AutoModelForCausalLM.from_pretrained reads, in float32, and names it.
ExitCode ExportModel(const ExportOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
