// swarmctl evaluate: measures how well a model predicts a text.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "api/swarmjob.h"
#include "ctl/exit_codes.h"

namespace swarm::ctl {

struct EvaluateOptions {
  std::string model;    ///< as FindModel takes it
  std::string data;     ///< as spec.data.uri; or
  std::string choices;  ///< uri of a file with questions, as ReadQuestions takes it
  std::optional<api::DataFormat> format;  ///< of the data; none: as the job that trained the model
  std::string tokenizer;                  ///< see ChooseTokenizer
  std::uint64_t sequence_length = 0;      ///< tokens; 0: as the model was trained
  std::uint64_t sequences = 0;            ///< 0: all of the data
  int threads = 0;                        ///< 0: see threads.h
  std::string device = "cpu";             ///< or "cuda:N"
  bool json = false;
};

/// Prints the mean loss in nats per token over the first `sequences` consecutive windows of the
/// data, and per byte of the text, if a tokenizer is known. A window is sequence_length tokens to
/// predict and the token before them. Of examples the tokens count that training learns, in the
/// sequences that it makes of them. Or prints how many of the first `sequences` questions the
/// model answers rightly (choices.h). Deterministic.
ExitCode EvaluateModel(const EvaluateOptions& options, std::FILE* out, std::FILE* err);

}  // namespace swarm::ctl
