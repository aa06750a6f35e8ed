// The inputs of a job, its corpora and its model configuration, opened and checked before any
// worker starts.
#pragma once

#include <memory>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/data/corpus.h"
#include "worker/data/tokenizer_files.h"

namespace swarm::trainer {

/// Fills in what the Hugging Face folder that spec.model.uri names has, if any: spec.model.config,
/// and spec.model.tokenizer unless the job names one. Validates the whole job again.
Status ResolveModel(api::SwarmJob* job);

class JobData {
 public:
  /// Opens training and validation data. Errors name the file and what is wrong.
  static Result<std::unique_ptr<JobData>> Open(const api::SwarmJob& job);

  /// Ids of a training microbatch: microbatchSize rows of sequenceLength + 1.
  std::vector<std::int32_t> Microbatch(std::uint64_t step, std::uint64_t microbatch) const;
  /// Ids of a validation microbatch, of the same shape; the same at every step.
  std::vector<std::int32_t> ValidationMicrobatch(std::uint64_t microbatch) const;
  /// 0 without validation data.
  std::uint64_t validation_microbatches() const { return validation_microbatches_; }
  /// What made ids of the text; kind Auto: all data were ids, and the job names no tokenizer.
  const data::TokenizerFiles& tokenizer() const { return tokenizer_; }
  std::uint32_t sequences() const { return sequences_; }
  std::uint32_t tokens_per_sequence() const { return tokens_per_sequence_; }

 private:
  std::unique_ptr<data::Corpus> training_;
  std::unique_ptr<data::Corpus> validation_;
  data::TokenizerFiles tokenizer_;
  std::uint64_t seed_ = 0;
  std::uint64_t validation_microbatches_ = 0;
  std::uint32_t sequences_ = 0;
  std::uint32_t tokens_per_sequence_ = 0;
};

}  // namespace swarm::trainer
