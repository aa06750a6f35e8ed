#include "worker/trainer/job_data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/model/decoder_config.h"
#include "api/validate.h"
#include "base/log.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/data/tokenizer.h"

namespace swarm::trainer {

Status ResolveModel(api::SwarmJob* job) {
  api::Model& model = job->spec.model;
  if (model.uri.empty()) return Status();
  if (model.tokenizer.kind == api::TokenizerKind::kAuto) {
    ASSIGN_OR_RETURN(model.tokenizer, data::FindTokenizer(model.uri, job->spec.storage));
  }
  if (model.config.hidden_size != 0) return Status();
  ASSIGN_OR_RETURN(const auto folder,
                   checkpoint::HuggingFaceFolder::Open(model.uri, job->spec.storage));
  const auto json = nlohmann::json::parse(folder->config_json(), nullptr, false);
  std::vector<api::FieldError> errors;
  model.config = api::ParseDecoderConfig(json, model.uri + "/config.json", &errors);
  if (errors.empty()) {
    errors = api::ValidateDecoderConfig(model.config, model.uri + "/config.json");
  }
  if (errors.empty()) errors = api::ValidateFit(*job);
  return api::ToStatus(errors);
}

namespace {

// Bytes stand in for a tokenizer where nothing else can be meant: a model of our own, or one with
// a vocabulary of bytes.
bool MayBeBytes(const api::Model& model) {
  return model.tokenizer.kind == api::TokenizerKind::kAuto &&
         (model.uri.empty() || model.config.vocab_size == 256);
}

Result<std::unique_ptr<data::Corpus>> OpenCorpus(const data::CorpusOptions& options) {
  auto corpus = data::Corpus::Open(options);
  if (corpus.ok() && (*corpus)->documents().skipped > 0) {
    LOG_WARN("{}{}", options.uri, (*corpus)->documents().TextOfSkipped());
  }
  return corpus;
}

}  // namespace

Result<std::unique_ptr<JobData>> JobData::Open(const api::SwarmJob& job) {
  const api::Training& training = job.spec.training;
  auto result = std::make_unique<JobData>();
  result->seed_ = training.seed;
  result->sequences_ = static_cast<std::uint32_t>(training.microbatchSize);
  result->tokens_per_sequence_ = static_cast<std::uint32_t>(training.sequenceLength + 1);
  const api::Model& model = job.spec.model;
  ASSIGN_OR_RETURN(result->tokenizer_, data::ReadTokenizerFiles(model.tokenizer, job.spec.storage));
  data::CorpusOptions options{.uri = job.spec.data.uri,
                              .storage = job.spec.storage,
                              .token_type = job.spec.data.tokenType,
                              .vocab_size = model.config.vocab_size,
                              .tokens_per_sequence = result->tokens_per_sequence_,
                              .documents = {.text_field = job.spec.data.textField,
                                            .on_bad_document = job.spec.data.onBadDocument}};
  if (model.tokenizer.kind != api::TokenizerKind::kAuto) {
    auto tokenizer = data::MakeTokenizer(result->tokenizer_);
    if (!tokenizer.ok()) return tokenizer.status().WithContext(model.tokenizer.uri);
    options.tokenizer = *std::move(tokenizer);
  } else if (MayBeBytes(model)) {
    options.tokenizer = data::MakeByteTokenizer();
  }
  ASSIGN_OR_RETURN(result->training_, OpenCorpus(options));
  if (!job.spec.data.validationUri.empty()) {
    options.uri = job.spec.data.validationUri;
    ASSIGN_OR_RETURN(result->validation_, OpenCorpus(options));
    const std::uint64_t there = result->validation_->WindowCount(result->tokens_per_sequence_);
    result->validation_microbatches_ =
        std::min(training.validationSequences, there) / training.microbatchSize;
    if (result->validation_microbatches_ == 0) {
      return InvalidArgument(options.uri + ": " + std::to_string(there) +
                             " sequences of validation data, and a microbatch takes " +
                             std::to_string(training.microbatchSize) +
                             "; give more data or a higher training.validationSequences");
    }
  }
  const bool text = result->training_->has_text() ||
                    (result->validation_ != nullptr && result->validation_->has_text());
  if (MayBeBytes(model) && text) result->tokenizer_.kind = api::TokenizerKind::kByte;
  return result;
}

std::vector<std::int32_t> JobData::Microbatch(std::uint64_t step, std::uint64_t microbatch) const {
  return training_->Draw(seed_, step, microbatch, sequences_, tokens_per_sequence_);
}

std::vector<std::int32_t> JobData::ValidationMicrobatch(std::uint64_t microbatch) const {
  std::vector<std::int32_t> ids;
  for (std::uint64_t row = 0; row < sequences_; ++row) {
    const auto window = validation_->Window(microbatch * sequences_ + row, tokens_per_sequence_);
    ids.insert(ids.end(), window.begin(), window.end());
  }
  return ids;
}

}  // namespace swarm::trainer
