#include "ctl/model/generate_command.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>
#include <vector>

#include "ctl/model/text_stream.h"
#include "ctl/model/trained_model.h"
#include "worker/data/utf8.h"

namespace swarm::ctl {
namespace {

// Stands for the tokenizer of a model that was trained on ids: texts are numbers between spaces.
class IdTokenizer final : public data::Tokenizer {
 public:
  explicit IdTokenizer(std::int64_t vocab_size) : vocab_size_(vocab_size) {}

  Result<std::vector<std::vector<std::int32_t>>> EncodeAll(
      std::span<const std::string_view> texts) const override {
    std::vector<std::vector<std::int32_t>> all(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::istringstream words{std::string(texts[i])};
      for (std::string word; words >> word;) {
        std::int32_t id = 0;
        const char* end = word.data() + word.size();
        const auto parsed = std::from_chars(word.data(), end, id);
        if (parsed.ec != std::errc() || parsed.ptr != end) {
          return InvalidArgument(
              "--prompt: the model comes without a tokenizer. Write ids, as \"5 17\", or give"
              " --tokenizer with the uri of its tokenizer, or --tokenizer byte");
        }
        all[i].push_back(id);
      }
    }
    return all;
  }
  Result<std::string> Decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
    return text;
  }
  std::int64_t vocab_size() const override { return vocab_size_; }

 private:
  const std::int64_t vocab_size_;
};

Result<std::unique_ptr<data::Tokenizer>> OpenTokenizer(const GenerateOptions& options,
                                                       const TrainedModel& found, std::FILE* err) {
  const api::Tokenizer tokenizer = ChooseTokenizer(found, options.tokenizer);
  if (tokenizer.kind != api::TokenizerKind::kAuto) {
    return data::OpenTokenizer(tokenizer, found.storage());
  }
  std::fprintf(err,
               "The model comes without a tokenizer, so the text is ids; --tokenizer names one.\n");
  std::unique_ptr<data::Tokenizer> ids = std::make_unique<IdTokenizer>(found.config.vocab_size);
  return ids;
}

// Continues a text token by token.
class Generator {
 public:
  Generator(const GenerateOptions& options, const data::Tokenizer& tokenizer, model::Stage& stage,
            std::uint64_t window, std::int64_t vocab_size)
      : options_(options),
        tokenizer_(tokenizer),
        stage_(stage),
        window_(std::max<std::uint64_t>(window, 1)),
        vocab_size_(static_cast<std::size_t>(vocab_size)),
        rng_(MixName(options.seed, "generate")) {}

  Status Run(std::FILE* out) {
    const data::SpecialTokens special = tokenizer_.special();
    ASSIGN_OR_RETURN(ids_, tokenizer_.Encode(options_.prompt));
    RETURN_IF_ERROR(CheckPrompt());
    // As in training: the model has seen documents that begin so.
    if (special.bos) ids_.insert(ids_.begin(), *special.bos);
    for (std::uint64_t i = 0; i < options_.tokens; ++i) {
      RETURN_IF_ERROR(Print(out, /*last=*/false));
      ASSIGN_OR_RETURN(const std::int32_t next, Next());
      if (next == special.eos) break;
      ids_.push_back(next);
    }
    RETURN_IF_ERROR(Print(out, /*last=*/true));
    std::fputc('\n', out);
    return std::fflush(out) == 0 ? Status() : Unavailable("the text cannot be written");
  }

 private:
  Status CheckPrompt() const {
    if (ids_.empty())
      return InvalidArgument("--prompt: is empty; the model needs a token to begin");
    for (const std::int32_t id : ids_) {
      if (id >= 0 && static_cast<std::size_t>(id) < vocab_size_) continue;
      return InvalidArgument("--tokenizer: it gives the prompt the token " + std::to_string(id) +
                             ", the model's vocab_size is " + std::to_string(vocab_size_) +
                             "; is it the model's?");
    }
    return Status();
  }

  Result<std::int32_t> Next() {
    const std::size_t seen = std::min<std::size_t>(ids_.size(), window_);
    const std::span<const std::int32_t> tail = std::span(ids_).last(seen);
    ASSIGN_OR_RETURN(const Bytes logits,
                     stage_.Logits(stage_.version(), {1, static_cast<std::uint32_t>(seen), tail}));
    std::vector<float> last(vocab_size_);
    std::memcpy(last.data(), logits.data() + (seen - 1) * vocab_size_ * sizeof(float),
                vocab_size_ * sizeof(float));
    // A model's vocabulary is often rounded up. Ids beyond the tokenizer's vocabulary are not
    // drawn.
    const auto known = std::min(vocab_size_, static_cast<std::size_t>(tokenizer_.vocab_size()));
    return SampleToken(std::span(last).first(known), options_.sampling, rng_);
  }

  Status Print(std::FILE* out, bool last) {
    ASSIGN_OR_RETURN(const std::string text, tokenizer_.Decode(ids_));
    const std::string fresh = stream_.Advance(text, last);
    const bool written = std::fwrite(fresh.data(), 1, fresh.size(), out) == fresh.size();
    return written && std::fflush(out) == 0 ? Status() : Unavailable("the text cannot be written");
  }

  const GenerateOptions& options_;
  const data::Tokenizer& tokenizer_;
  model::Stage& stage_;
  const std::uint64_t window_;
  const std::size_t vocab_size_;
  Rng rng_;
  std::vector<std::int32_t> ids_;
  TextStream stream_;
};

Status Generate(const GenerateOptions& options, std::FILE* out, std::FILE* err) {
  if (data::FindInvalidUtf8(options.prompt)) return InvalidArgument("--prompt: is not UTF-8");
  ASSIGN_OR_RETURN(const TrainedModel found, FindModel(options.model));
  ASSIGN_OR_RETURN(const auto tokenizer, OpenTokenizer(options, found, err));
  ASSIGN_OR_RETURN(const auto stage, LoadWholeModel(found, options.threads));
  return Generator(options, *tokenizer, *stage, found.sequence_length(), found.config.vocab_size)
      .Run(out);
}

}  // namespace

ExitCode GenerateText(const GenerateOptions& options, std::FILE* out, std::FILE* err) {
  const Status status = Generate(options, out, err);
  if (status.ok()) return ExitCode::kOk;
  std::fprintf(err, "%s\n", status.message().c_str());
  return ExitCodeOf(status);
}

}  // namespace swarm::ctl
