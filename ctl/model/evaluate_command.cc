#include "ctl/model/evaluate_command.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

#include "ctl/model/choice_likelihoods.h"
#include "ctl/model/choices.h"
#include "ctl/model/trained_model.h"
#include "worker/data/corpus.h"
#include "worker/data/tokenizer_files.h"
#include "worker/storage/storage.h"
#include "worker/token.h"

namespace swarm::ctl {
namespace {

constexpr std::uint64_t kTokensAtOnce = 2048;  // enough to keep the cores busy

struct Evaluation {
  double loss = 0;  // mean, nats per token
  std::uint64_t sequences = 0;
  std::uint64_t sequence_length = 0;
  std::uint64_t tokens = 0;  // that were predicted and count
  std::uint64_t bytes = 0;   // of their text; 0: there is no tokenizer
  double bits_per_byte() const {
    return loss * static_cast<double>(tokens) / std::numbers::ln2 / static_cast<double>(bytes);
  }
};

// Null where none is known.
Result<std::shared_ptr<const data::Tokenizer>> OpenTokenizerOf(const EvaluateOptions& options,
                                                               const TrainedModel& found) {
  std::shared_ptr<const data::Tokenizer> opened;
  const api::Tokenizer tokenizer = ChooseTokenizer(found, options.tokenizer);
  if (tokenizer.kind == api::TokenizerKind::kAuto) return opened;
  ASSIGN_OR_RETURN(opened, data::OpenTokenizer(tokenizer, found.storage()));
  return opened;
}

Result<std::unique_ptr<data::Corpus>> OpenData(const EvaluateOptions& options,
                                               const TrainedModel& found,
                                               std::shared_ptr<const data::Tokenizer> tokenizer,
                                               std::uint64_t sequence_length) {
  data::CorpusOptions corpus{
      .uri = options.data,
      .storage = found.storage(),
      .token_type =
          found.config.vocab_size <= 65536 ? api::TokenType::kUInt16 : api::TokenType::kUInt32,
      .vocab_size = found.config.vocab_size,
      .tokens_per_sequence = sequence_length + 1,
      .documents = {.view = api::DocumentView::kSeparate, .tokens_per_sequence = sequence_length}};
  if (found.job) {
    const api::Data& trained = found.job->spec.data;
    corpus.token_type = trained.tokenType;
    corpus.documents.text_field = trained.textField;
    corpus.documents.format = trained.format;
    corpus.documents.view = trained.documents;
  }
  if (options.format) corpus.documents.format = *options.format;
  // With the chat template.
  ASSIGN_OR_RETURN(
      corpus.documents.tokenizer_files,
      data::ReadTokenizerFiles(ChooseTokenizer(found, options.tokenizer), found.storage()));
  // Pre-tokenized data needs no tokenizer. The corpus finds out whether the data is pre-tokenized.
  corpus.tokenizer = std::move(tokenizer);
  auto opened = data::Corpus::Open(corpus);
  if (!opened.ok()) return opened.status().WithContext("--data");
  return opened;
}

// The bytes of the text of the ids, without the first, which is only read.
Result<std::uint64_t> PredictedBytes(const data::Tokenizer& tokenizer,
                                     std::span<const std::int32_t> ids) {
  ASSIGN_OR_RETURN(const std::string all, tokenizer.Decode(ids));
  ASSIGN_OR_RETURN(const std::string first, tokenizer.Decode(ids.first(1)));
  return all.size() - std::min(all.size(), first.size());
}

// Adds the labels of a window that count, and their bytes.
Status CountLabels(std::span<const std::int32_t> window, const data::Tokenizer* tokenizer,
                   Evaluation* evaluation) {
  std::vector<std::int32_t> run;  // the token before labels that count, and these
  for (std::size_t i = 0; i <= window.size(); ++i) {
    const Token token = i < window.size() ? Token::Read(window[i]) : Token{.learned = false};
    const bool counts = i > 0 && token.learned;
    if (!counts && run.size() > 1 && tokenizer != nullptr) {
      ASSIGN_OR_RETURN(const std::uint64_t bytes, PredictedBytes(*tokenizer, run));
      evaluation->bytes += bytes;
    }
    if (!counts) run.clear();
    run.push_back(token.id);
    evaluation->tokens += counts ? 1 : 0;
  }
  return Status();
}

Result<Evaluation> Evaluate(const EvaluateOptions& options, const TrainedModel& found) {
  Evaluation evaluation;
  evaluation.sequence_length =
      options.sequence_length > 0 ? options.sequence_length : found.sequence_length();
  if (evaluation.sequence_length >= std::numeric_limits<std::int32_t>::max()) {
    return InvalidArgument("--sequence-length: is " + std::to_string(evaluation.sequence_length) +
                           ", more than any model takes");
  }
  const auto width = static_cast<std::uint32_t>(evaluation.sequence_length + 1);
  ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizerOf(options, found));
  ASSIGN_OR_RETURN(const auto corpus,
                   OpenData(options, found, tokenizer, evaluation.sequence_length));
  ASSIGN_OR_RETURN(const auto stage, LoadWholeModel(found, options.threads, options.device));
  // Sequences of examples share the label at the joint, which does not count.
  const std::uint64_t stride = corpus->has_examples() ? width - 1 : width;
  const std::uint64_t there = (corpus->token_count() - width) / stride + 1;
  evaluation.sequences = options.sequences > 0 ? std::min(options.sequences, there) : there;
  const std::uint64_t rows_max = std::max<std::uint64_t>(1, kTokensAtOnce / width);
  double sum = 0;
  for (std::uint64_t first = 0; first < evaluation.sequences; first += rows_max) {
    const std::uint64_t rows = std::min(rows_max, evaluation.sequences - first);
    std::vector<std::int32_t> ids;
    for (std::uint64_t row = first; row < first + rows; ++row) {
      ASSIGN_OR_RETURN(const auto window, corpus->Read(row * stride, width));
      RETURN_IF_ERROR(CountLabels(window, tokenizer.get(), &evaluation));
      ids.insert(ids.end(), window.begin(), window.end());
    }
    const model::TokenBatch batch{static_cast<std::uint32_t>(rows), width, ids};
    ASSIGN_OR_RETURN(const auto result,
                     stage->Forward({}, stage->version(), batch, {}, /*keep_graph=*/false));
    sum += result.loss * static_cast<double>(rows * evaluation.sequence_length);
  }
  evaluation.loss = sum / static_cast<double>(evaluation.tokens);
  return evaluation;
}

Result<ChoiceScore> EvaluateChoices(const EvaluateOptions& options, const TrainedModel& found) {
  const storage::SplitUri file = storage::SplitLastName(options.choices);
  ASSIGN_OR_RETURN(const auto folder, storage::Storage::Open(file.folder, found.storage()));
  auto content = folder->Read(file.name);
  if (!content.ok()) return content.status().WithContext("--choices");
  auto questions = ReadQuestions(content->text());
  if (!questions.ok()) return questions.status().WithContext("--choices: " + options.choices);
  ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizerOf(options, found));
  if (tokenizer == nullptr) {
    return InvalidArgument("--choices: the model comes without a tokenizer; --tokenizer names one");
  }
  ASSIGN_OR_RETURN(const auto stage, LoadWholeModel(found, options.threads, options.device));
  if (options.sequences > 0 && options.sequences < questions->size()) {
    questions->resize(options.sequences);
  }
  const std::uint64_t window =
      options.sequence_length > 0 ? options.sequence_length : found.sequence_length();
  ChoiceScore score;
  for (const Question& question : *questions) {
    const auto likelihoods =
        ChoiceLikelihoods(question, *tokenizer, *stage, window, found.config.vocab_size);
    if (!likelihoods.ok()) {
      return likelihoods.status().WithContext("--choices: question " +
                                              std::to_string(score.questions() + 1));
    }
    score.Add(question, *likelihoods);
  }
  return score;
}

void PrintJson(const nlohmann::json& object, std::FILE* out) {
  using Handler = nlohmann::json::error_handler_t;
  std::fprintf(out, "%s\n", object.dump(-1, ' ', false, Handler::replace).c_str());
}

void Print(const ChoiceScore& score, const TrainedModel& found, bool json, std::FILE* out) {
  const double plain = score.accuracy(), normalized = score.normalized_accuracy();
  if (json) {
    return PrintJson({{"accuracy", plain},
                      {"accuracyError", score.ErrorOf(plain)},
                      {"normalizedAccuracy", normalized},
                      {"normalizedAccuracyError", score.ErrorOf(normalized)},
                      {"questions", score.questions()},
                      {"model", found.uri},
                      {"step", found.version.value}},
                     out);
  }
  std::fprintf(out,
               "accuracy %.4f +- %.4f, normalized by length %.4f +- %.4f, over %llu questions;"
               " model: %s\n",
               plain, score.ErrorOf(plain), normalized, score.ErrorOf(normalized),
               static_cast<unsigned long long>(score.questions()), found.uri.c_str());
}

void Print(const Evaluation& evaluation, const TrainedModel& found, bool json, std::FILE* out) {
  if (json) {
    nlohmann::json object = {{"loss", evaluation.loss},
                             {"perplexity", std::exp(evaluation.loss)},
                             {"tokens", evaluation.tokens},
                             {"sequences", evaluation.sequences},
                             {"sequenceLength", evaluation.sequence_length},
                             {"model", found.uri},
                             {"step", found.version.value}};
    if (evaluation.bytes > 0) {
      object["bytes"] = evaluation.bytes;
      object["bitsPerByte"] = evaluation.bits_per_byte();
    }
    return PrintJson(object, out);
  }
  std::fprintf(out, "loss %.4f nats per token (perplexity %.4g", evaluation.loss,
               std::exp(evaluation.loss));
  if (evaluation.bytes > 0) std::fprintf(out, ", %.4f bits per byte", evaluation.bits_per_byte());
  std::fprintf(out, ") over %llu sequences of %llu tokens; model: %s\n",
               static_cast<unsigned long long>(evaluation.sequences),
               static_cast<unsigned long long>(evaluation.sequence_length), found.uri.c_str());
}

template <typename Measured>
ExitCode Report(const Result<Measured>& measured, const TrainedModel& found, bool json,
                std::FILE* out, std::FILE* err) {
  if (measured.ok()) {
    Print(*measured, found, json, out);
    return ExitCode::kOk;
  }
  std::fprintf(err, "%s\n", measured.status().message().c_str());
  return ExitCodeOf(measured.status());
}

}  // namespace

ExitCode EvaluateModel(const EvaluateOptions& options, std::FILE* out, std::FILE* err) {
  const Result<TrainedModel> found = FindModel(options.model);
  if (!found.ok()) {
    std::fprintf(err, "%s\n", found.status().message().c_str());
    return ExitCodeOf(found.status());
  }
  return options.choices.empty()
             ? Report(Evaluate(options, *found), *found, options.json, out, err)
             : Report(EvaluateChoices(options, *found), *found, options.json, out, err);
}

}  // namespace swarm::ctl
