// The inputs of a job, its corpora and its model configuration, opened and checked before any
// worker starts.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "api/swarmjob.h"
#include "base/status.h"
#include "worker/data/corpus.h"
#include "worker/data/order/order.h"
#include "worker/data/reader/sequence_reader.h"
#include "worker/data/tokenizer_files.h"
#include "worker/storage/places.h"

namespace swarm::trainer {

/// Fills in what the Hugging Face folder that spec.model.uri names has, if any: spec.model.config,
/// and spec.model.tokenizer unless the job names one. Validates the whole job again.
Status ResolveModel(api::SwarmJob* job);

/// The sequences of a job, by step and microbatch. Used from one thread, except for tokenizer().
class JobData {
 public:
  using Done = data::SequenceReader::Done;

  /// Opens training and validation data. Reads that fail are tried again for `patience`. Errors
  /// name the file and what is wrong.
  static Result<std::unique_ptr<JobData>> Open(const api::SwarmJob& job, Duration patience,
                                               const std::string& region = "");

  /// The sequences of a training microbatch, a function of the job, the step and the microbatch
  /// alone (data::Order). Reads ahead what comes after it.
  std::vector<data::Place> Draw(std::uint64_t step, std::uint64_t microbatch);
  /// The sequences of a validation microbatch; the same at every step.
  std::vector<data::Place> ValidationSequences(std::uint64_t microbatch) const;
  /// Gives microbatchSize rows of sequenceLength + 1 tokens, as worker/token.h writes them
  /// (SequenceReader::Read).
  void Read(const std::vector<data::Place>& sequences, Done done);
  Result<std::vector<std::int32_t>> Await(const std::vector<data::Place>& sequences);

  /// The part of all labels of a step that count (protocol::CommitInputs): above 0.
  double CountedPart(std::uint64_t step) const;
  double ValidationCountedPart() const;

  data::SequenceReader::Counts counts() const { return reader_->counts(); }
  /// 0 without validation data.
  std::uint64_t validation_microbatches() const { return validation_microbatches_; }
  /// What made ids of the text; kind Auto: all data were ids, and the job names no tokenizer.
  const data::TokenizerFiles& tokenizer() const { return tokenizer_; }
  std::uint32_t sequences() const { return sequences_; }
  std::uint32_t tokens_per_sequence() const { return tokens_per_sequence_; }

 private:
  explicit JobData(const api::SwarmJob& job);
  Status OpenTraining(const api::SwarmJob& job, const std::string& region,
                      data::CorpusOptions options);
  Status OpenValidation(const api::SwarmJob& job, const std::string& region,
                        data::CorpusOptions options);
  Result<std::shared_ptr<const data::Corpus>> OpenCorpus(std::span<const storage::Place> places,
                                                         data::CorpusOptions options);
  /// With data.documents Separate, marks where the documents of rows begin. Examples are marked.
  void MarkDocuments(const std::vector<data::Place>& sequences, std::span<std::int32_t> ids) const;
  std::uint64_t CountLabels(const data::Place& sequence) const;

  const std::uint32_t sequences_;  ///< of a microbatch
  const std::uint32_t tokens_per_sequence_;
  const std::uint64_t sequences_per_step_;
  const bool separate_;                   ///< documents do not see each other
  const std::uint64_t draws_;             ///< of the whole job
  std::vector<data::Sequences> sources_;  ///< for training, then for validation
  std::optional<data::Order> order_;
  std::unique_ptr<data::SequenceReader> reader_;
  std::uint64_t ahead_ = 0;  ///< the draws below were read ahead
  std::uint64_t validation_microbatches_ = 0;
  bool has_text_ = false;
  bool in_bucket_ = false;  ///< some of the data
  std::uint64_t text_bytes_ = 0;
  data::TokenizerFiles tokenizer_;
  std::optional<std::int32_t> separator_;  ///< the EOS of documents that do not see each other
};

}  // namespace swarm::trainer
