#include "worker/trainer/job_data.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/model/decoder_config.h"
#include "api/validate.h"
#include "base/log.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/data/data_copies.h"
#include "worker/data/tokenizer.h"
#include "worker/storage/storage.h"
#include "worker/token.h"

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

// Every attempt reads a damaged file alike, so the job is wrong that names it.
Status DamagedIsWrong(const Status& status) {
  return status.code() == StatusCode::kDataLoss ? InvalidArgument(status.message()) : status;
}

// A bucket answers late, so many reads are under way at once.
constexpr int kBucketReads = 16;
constexpr int kDiskReads = 2;

}  // namespace

JobData::JobData(const api::SwarmJob& job)
    : sequences_(static_cast<std::uint32_t>(job.spec.training.microbatchSize)),
      tokens_per_sequence_(static_cast<std::uint32_t>(job.spec.training.sequenceLength + 1)),
      sequences_per_step_(job.spec.training.globalBatchSize),
      separate_(job.spec.data.documents == api::DocumentView::kSeparate),
      draws_(job.spec.training.maxSteps * job.spec.training.globalBatchSize) {}

Result<std::unique_ptr<JobData>> JobData::Open(const api::SwarmJob& job, Duration patience,
                                               const std::string& region) {
  std::unique_ptr<JobData> result(new JobData(job));
  const api::Model& model = job.spec.model;
  const api::Data& data = job.spec.data;
  ASSIGN_OR_RETURN(result->tokenizer_, data::ReadTokenizerFiles(model.tokenizer, job.spec.storage));
  data::CorpusOptions options{.storage = job.spec.storage,
                              .token_type = data.tokenType,
                              .vocab_size = model.config.vocab_size,
                              .tokens_per_sequence = result->tokens_per_sequence_,
                              .documents = {.format = data.format,
                                            .text_field = data.textField,
                                            .on_bad_document = data.onBadDocument,
                                            .view = data.documents,
                                            .tokens_per_sequence = job.spec.training.sequenceLength,
                                            .tokenizer_files = result->tokenizer_}};
  if (model.tokenizer.kind != api::TokenizerKind::kAuto) {
    auto tokenizer = data::MakeTokenizer(result->tokenizer_);
    if (!tokenizer.ok()) {
      return DamagedIsWrong(tokenizer.status().WithContext(model.tokenizer.uri));
    }
    options.tokenizer = *std::move(tokenizer);
  } else if (MayBeBytes(model)) {
    options.tokenizer = data::MakeByteTokenizer();
  }
  if (result->separate_ && options.tokenizer != nullptr) {
    result->separator_ = options.tokenizer->special().eos;
  }
  const std::uint64_t least = data::SequenceReader::CacheBytesMin(result->tokens_per_sequence_);
  if (data.cacheBytes < least) {
    return InvalidArgument("data.cacheBytes is " + std::to_string(data.cacheBytes) +
                           "; sequences of this length need at least " + std::to_string(least));
  }
  RETURN_IF_ERROR(result->OpenTraining(job, region, options));
  if (!data.validationUri.empty()) {
    RETURN_IF_ERROR(result->OpenValidation(job, region, options));
  }
  result->reader_ = std::make_unique<data::SequenceReader>(
      result->sources_,
      data::ReaderOptions{.cache_bytes = std::max(least, data.cacheBytes - result->text_bytes_),
                          .threads = result->in_bucket_ ? kBucketReads : kDiskReads,
                          .patience = patience});
  if (MayBeBytes(model) && result->has_text_) {
    result->tokenizer_.kind = api::TokenizerKind::kByte;
  }
  return result;
}

Result<std::shared_ptr<const data::Corpus>> JobData::OpenCorpus(
    std::span<const storage::Place> places, data::CorpusOptions options) {
  ASSIGN_OR_RETURN(const storage::Place place, data::ChooseData(places));
  options.uri = place.uri;
  options.storage = place.options;
  options.open = data::OpenerOf(place);
  in_bucket_ |= storage::IsBucket(place.uri);
  auto opened = data::Corpus::Open(options);
  if (!opened.ok()) return DamagedIsWrong(opened.status());
  std::shared_ptr<const data::Corpus> corpus = *std::move(opened);
  if (corpus->documents().skipped > 0) {
    LOG_WARN("{}{}", options.uri, corpus->documents().TextOfSkipped());
  }
  if (separate_ && !separator_ && !corpus->has_examples()) {
    return InvalidArgument(
        options.uri +
        ": data.documents is Separate, and no tokenizer names the EOS that ends a"
        " document; name one as model.tokenizer, or leave the documents joined");
  }
  has_text_ |= corpus->has_text();
  text_bytes_ += corpus->text_bytes();
  return corpus;
}

Status JobData::OpenTraining(const api::SwarmJob& job, const std::string& region,
                             data::CorpusOptions options) {
  const auto sources = job.spec.data.AllSources();
  std::vector<data::OrderedSource> ordered;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const api::DataSource& source = sources[s];
    options.text_bytes_max = job.spec.data.cacheBytes - text_bytes_;
    ASSIGN_OR_RETURN(auto corpus, OpenCorpus(storage::DataPlaces(job.spec, s, region), options));
    // A sequence predicts all its tokens but the first, which the one before it predicts.
    sources_.push_back({std::move(corpus), tokens_per_sequence_ - 1, tokens_per_sequence_});
    ordered.push_back({sources_.back().count(), source.weight});
  }
  auto order = data::Order::Make(job.spec.training.seed, std::move(ordered));
  if (!order.ok()) return order.status().WithContext("data.sources");
  order_ = *std::move(order);
  for (std::uint32_t s = 0; s < sources.size(); ++s) {
    LOG_INFO("data: {} has {} sequences of {} tokens, which the job draws {:.2f} times",
             sources[s].uri, sources_[s].count(), tokens_per_sequence_ - 1,
             order_->Epochs(s, draws_));
  }
  return Status();
}

Status JobData::OpenValidation(const api::SwarmJob& job, const std::string& region,
                               data::CorpusOptions options) {
  const api::Training& training = job.spec.training;
  options.text_bytes_max = job.spec.data.cacheBytes - text_bytes_;
  ASSIGN_OR_RETURN(auto corpus, OpenCorpus(storage::ValidationPlaces(job.spec, region), options));
  // Sequences of examples share the label at the joint, which does not count.
  const std::uint64_t stride =
      corpus->has_examples() ? tokens_per_sequence_ - 1 : tokens_per_sequence_;
  sources_.push_back({std::move(corpus), stride, tokens_per_sequence_});
  const std::uint64_t there = sources_.back().count();
  validation_microbatches_ =
      std::min(training.validationSequences, there) / training.microbatchSize;
  if (validation_microbatches_ > 0) return Status();
  return InvalidArgument(job.spec.data.validationUri + ": " + std::to_string(there) +
                         " sequences of validation data, and a microbatch takes " +
                         std::to_string(training.microbatchSize) +
                         "; give more data or a higher training.validationSequences");
}

void JobData::MarkDocuments(const std::vector<data::Place>& sequences,
                            std::span<std::int32_t> ids) const {
  if (!separator_) return;
  for (std::size_t row = 0; row < sequences.size(); ++row) {
    if (sources_[sequences[row].source].corpus->has_examples()) continue;
    const auto tokens = ids.subspan(row * tokens_per_sequence_, tokens_per_sequence_);
    std::int32_t before = tokens[0];
    for (std::int32_t& token : tokens.subspan(1)) {
      const std::int32_t id = token;
      token = Token{.id = id, .begins = before == *separator_}.Write();
      before = id;
    }
  }
}

void JobData::Read(const std::vector<data::Place>& sequences, Done done) {
  reader_->Read(sequences, [this, sequences, done = std::move(done)](auto ids) {
    if (ids.ok()) MarkDocuments(sequences, *ids);
    done(std::move(ids));
  });
}

Result<std::vector<std::int32_t>> JobData::Await(const std::vector<data::Place>& sequences) {
  ASSIGN_OR_RETURN(auto ids, reader_->Await(sequences));
  MarkDocuments(sequences, ids);
  return ids;
}

std::uint64_t JobData::CountLabels(const data::Place& sequence) const {
  const data::Sequences& source = sources_[sequence.source];
  return source.corpus->CountLearned(sequence.sequence * source.stride + 1, source.tokens - 1);
}

double JobData::CountedPart(std::uint64_t step) const {
  std::uint64_t counted = 0;
  for (std::uint64_t row = 0; row < sequences_per_step_; ++row) {
    counted += CountLabels(order_->At(step * sequences_per_step_ + row));
  }
  return static_cast<double>(counted) /
         static_cast<double>(sequences_per_step_ * (tokens_per_sequence_ - 1));
}

double JobData::ValidationCountedPart() const {
  const std::uint64_t rows = validation_microbatches_ * sequences_;
  std::uint64_t counted = 0;
  for (std::uint64_t row = 0; row < rows; ++row) {
    counted += CountLabels({static_cast<std::uint32_t>(sources_.size() - 1), row});
  }
  if (rows == 0) return 1;
  return static_cast<double>(counted) / static_cast<double>(rows * (tokens_per_sequence_ - 1));
}

std::vector<data::Place> JobData::Draw(std::uint64_t step, std::uint64_t microbatch) {
  const std::uint64_t first = step * sequences_per_step_ + microbatch * sequences_;
  std::vector<data::Place> places;
  for (std::uint64_t row = 0; row < sequences_; ++row) places.push_back(order_->At(first + row));
  // This step and the next, as far as there is room for them.
  const std::uint64_t horizon = std::min(2 * sequences_per_step_, reader_->ahead_max());
  const std::uint64_t end = std::min(first + horizon, draws_);
  // Microbatches of two steps take turns, so `first` may go back a little; after a rollback it goes
  // back further.
  if (ahead_ < first || ahead_ > end + 4 * sequences_per_step_) ahead_ = first;
  for (; ahead_ < end; ++ahead_) reader_->ReadAhead(order_->At(ahead_));
  return places;
}

std::vector<data::Place> JobData::ValidationSequences(std::uint64_t microbatch) const {
  const auto source = static_cast<std::uint32_t>(sources_.size() - 1);
  std::vector<data::Place> places;
  for (std::uint64_t row = 0; row < sequences_; ++row) {
    places.push_back({source, microbatch * sequences_ + row});
  }
  return places;
}

}  // namespace swarm::trainer
