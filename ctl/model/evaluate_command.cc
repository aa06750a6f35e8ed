#include "ctl/model/evaluate_command.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "ctl/model/trained_model.h"
#include "worker/data/corpus.h"

namespace swarm::ctl {
namespace {

constexpr std::uint64_t kTokensAtOnce = 2048;  // enough to keep the cores busy

struct Evaluation {
  double loss = 0;  // mean, nats per token
  std::uint64_t sequences = 0;
  std::uint64_t sequence_length = 0;
};

Result<std::unique_ptr<data::Corpus>> OpenData(const EvaluateOptions& options,
                                               const TrainedModel& found,
                                               std::uint64_t sequence_length) {
  data::CorpusOptions corpus{.uri = options.data,
                             .storage = found.storage(),
                             .token_type = found.config.vocab_size <= 65536
                                               ? api::TokenType::kUInt16
                                               : api::TokenType::kUInt32,
                             .vocab_size = found.config.vocab_size,
                             .tokens_per_sequence = sequence_length + 1};
  if (found.job) {
    corpus.token_type = found.job->spec.data.tokenType;
    corpus.documents.text_field = found.job->spec.data.textField;
  }
  // Pre-tokenized data needs no tokenizer. The corpus finds out whether the data is pre-tokenized.
  const api::Tokenizer tokenizer = ChooseTokenizer(found, options.tokenizer);
  if (tokenizer.kind != api::TokenizerKind::kAuto) {
    ASSIGN_OR_RETURN(corpus.tokenizer, data::OpenTokenizer(tokenizer, found.storage()));
  }
  auto opened = data::Corpus::Open(corpus);
  if (!opened.ok()) return opened.status().WithContext("--data");
  return opened;
}

// The mean loss over `rows` windows from `first` on.
Result<double> LossOf(model::Stage& stage, const data::Corpus& corpus, std::uint64_t first,
                      std::uint64_t rows, std::uint32_t tokens_per_sequence) {
  std::vector<std::int32_t> ids;
  ids.reserve(rows * tokens_per_sequence);
  for (std::uint64_t row = first; row < first + rows; ++row) {
    const auto window = corpus.Window(row, tokens_per_sequence);
    ids.insert(ids.end(), window.begin(), window.end());
  }
  const model::TokenBatch batch{static_cast<std::uint32_t>(rows), tokens_per_sequence, ids};
  ASSIGN_OR_RETURN(const auto result,
                   stage.Forward({}, stage.version(), batch, {}, /*keep_graph=*/false));
  return result.loss;
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
  ASSIGN_OR_RETURN(const auto corpus, OpenData(options, found, evaluation.sequence_length));
  ASSIGN_OR_RETURN(const auto stage, LoadWholeModel(found, options.threads));
  const std::uint64_t there = corpus->WindowCount(width);
  evaluation.sequences = options.sequences > 0 ? std::min(options.sequences, there) : there;
  const std::uint64_t rows_max = std::max<std::uint64_t>(1, kTokensAtOnce / width);
  double sum = 0;
  for (std::uint64_t first = 0; first < evaluation.sequences; first += rows_max) {
    const std::uint64_t rows = std::min(rows_max, evaluation.sequences - first);
    ASSIGN_OR_RETURN(const double loss, LossOf(*stage, *corpus, first, rows, width));
    sum += loss * static_cast<double>(rows);
  }
  evaluation.loss = sum / static_cast<double>(evaluation.sequences);
  return evaluation;
}

void Print(const Evaluation& evaluation, const TrainedModel& found, bool json, std::FILE* out) {
  const std::uint64_t tokens = evaluation.sequences * evaluation.sequence_length;
  if (json) {
    const nlohmann::json object = {{"loss", evaluation.loss},
                                   {"perplexity", std::exp(evaluation.loss)},
                                   {"tokens", tokens},
                                   {"sequences", evaluation.sequences},
                                   {"sequenceLength", evaluation.sequence_length},
                                   {"model", found.uri},
                                   {"step", found.version.value}};
    using Handler = nlohmann::json::error_handler_t;
    std::fprintf(out, "%s\n", object.dump(-1, ' ', false, Handler::replace).c_str());
    return;
  }
  std::fprintf(out, "loss %.4f nats per token (perplexity %.4g) over %llu sequences of %llu tokens",
               evaluation.loss, std::exp(evaluation.loss),
               static_cast<unsigned long long>(evaluation.sequences),
               static_cast<unsigned long long>(evaluation.sequence_length));
  std::fprintf(out, "; model: %s\n", found.uri.c_str());
}

}  // namespace

ExitCode EvaluateModel(const EvaluateOptions& options, std::FILE* out, std::FILE* err) {
  const Result<TrainedModel> found = FindModel(options.model);
  const Result<Evaluation> evaluation =
      found.ok() ? Evaluate(options, *found) : Result<Evaluation>(found.status());
  if (!evaluation.ok()) {
    std::fprintf(err, "%s\n", evaluation.status().message().c_str());
    return ExitCodeOf(evaluation.status());
  }
  Print(*evaluation, *found, options.json, out);
  return ExitCode::kOk;
}

}  // namespace swarm::ctl
