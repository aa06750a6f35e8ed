// swarmctl generate: continues a text with a trained model.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "base/status.h"
#include "ctl/exit_codes.h"
#include "ctl/model/sampling.h"

namespace swarm::ctl {

struct GenerateOptions {
  std::string model;           ///< as FindModel takes it
  std::string prompt;          ///< UTF-8; at least one token
  bool chat = false;           ///< the prompt is what a user says to the model
  std::string system;          ///< with chat: what the model hears before it, unless empty
  std::uint64_t tokens = 200;  ///< to generate
  SamplingOptions sampling;
  std::uint64_t seed = 1;      ///< of the draws
  std::string tokenizer;       ///< see ChooseTokenizer
  int threads = 0;             ///< 0: see threads.h
  std::string device = "cpu";  ///< or "cuda:N"
};

/// Prints the prompt, then each new token as soon as it is drawn, up to the tokenizer's EOS, or to
/// Ctrl-C. With `chat` the tokenizer's chat template writes the prompt, and only the answer is
/// printed. A model without a tokenizer takes and gives ids, and `err` hears that. The model sees
/// at most as many tokens as in training: when there are more, it reads the newest half of them
/// anew. The same seed gives the same text on the same machine.
ExitCode GenerateText(const GenerateOptions& options, std::FILE* out, std::FILE* err);

/// The text that GenerateText would print, at its whole length. Errors: kFailedPrecondition (a
/// model without a tokenizer gives ids, not text); those of FindModel and of the options.
Result<std::string> SampleText(const GenerateOptions& options);

}  // namespace swarm::ctl
