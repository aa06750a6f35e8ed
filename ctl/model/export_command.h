// swarmctl export: writes a trained model as a Hugging Face folder.
#pragma once

#include <cstdio>
#include <string>

#include "ctl/exit_codes.h"
#include "worker/checkpoint/huggingface.h"

namespace swarm::ctl {

struct ExportOptions {
  std::string model;      ///< as FindModel takes it
  std::string out;        ///< path or uri of a folder that is empty or does not exist
  std::string tokenizer;  ///< see ChooseTokenizer; its files are copied, too
  checkpoint::WeightsFormat weights;
  bool json = false;
};

/// Writes a folder that transformers' AutoModelForCausalLM.from_pretrained reads, and
/// AutoTokenizer where the model has a tokenizer.json.
ExitCode ExportModel(const ExportOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
