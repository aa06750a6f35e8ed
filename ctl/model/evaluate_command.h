// swarmctl evaluate: measures how well a model predicts a text.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "ctl/exit_codes.h"

namespace swarm::ctl {

struct EvaluateOptions {
  std::string model;                  ///< as FindModel takes it
  std::string data;                   ///< as spec.data.uri
  std::string tokenizer;              ///< see ChooseTokenizer
  std::uint64_t sequence_length = 0;  ///< tokens; 0: as the model was trained
  std::uint64_t sequences = 0;        ///< 0: all of the data
  int threads = 0;                    ///< 0: see threads.h
  bool json = false;
};

/// Prints the mean loss in nats per token over the first `sequences` consecutive windows of the
/// data. A window is sequence_length tokens to predict and the token before them. Deterministic.
ExitCode EvaluateModel(const EvaluateOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
