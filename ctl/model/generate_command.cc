#include "ctl/model/generate_command.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

#include "base/signals.h"
#include "ctl/model/text_stream.h"
#include "ctl/model/trained_model.h"
#include "worker/data/huggingface/chat.h"
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

struct OpenedTokenizer {
  data::TokenizerFiles files;
  std::unique_ptr<data::Tokenizer> tokenizer;
};

Result<OpenedTokenizer> OpenTokenizer(const GenerateOptions& options, const TrainedModel& found,
                                      std::FILE* err) {
  const api::Tokenizer chosen = ChooseTokenizer(found, options.tokenizer);
  OpenedTokenizer opened;
  if (chosen.kind == api::TokenizerKind::kAuto) {
    std::fprintf(
        err, "The model comes without a tokenizer, so the text is ids; --tokenizer names one.\n");
    opened.tokenizer = std::make_unique<IdTokenizer>(found.config.vocab_size);
    return opened;
  }
  ASSIGN_OR_RETURN(opened.files, data::ReadTokenizerFiles(chosen, found.storage()));
  auto tokenizer = data::MakeTokenizer(opened.files);
  if (!tokenizer.ok()) return tokenizer.status().WithContext(chosen.uri);
  opened.tokenizer = *std::move(tokenizer);
  return opened;
}

// What the model reads first, and whether it is left out of what is printed.
struct Prompt {
  std::vector<std::int32_t> ids;
  bool hidden = false;
};

Result<Prompt> ReadPrompt(const GenerateOptions& options, const OpenedTokenizer& opened) {
  const data::Tokenizer& tokenizer = *opened.tokenizer;
  Prompt prompt{.hidden = options.chat};
  if (!options.chat) {
    ASSIGN_OR_RETURN(prompt.ids, tokenizer.Encode(options.prompt));
    if (prompt.ids.empty()) {
      return InvalidArgument("--prompt: is empty; the model needs a token to begin");
    }
    // As in training: the model has seen documents that begin so.
    const data::SpecialTokens special = tokenizer.special();
    if (special.bos) prompt.ids.insert(prompt.ids.begin(), *special.bos);
    return prompt;
  }
  std::vector<data::ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", options.prompt});
  const auto chat = data::ChatTemplate::Compile(opened.files);
  if (!chat.ok()) return chat.status().WithContext("--chat");
  const auto text = chat->Render(messages, data::ChatEnd::kWhereAnswerBegins);
  if (!text.ok()) return text.status().WithContext("--chat");
  ASSIGN_OR_RETURN(prompt.ids, tokenizer.Encode(*text));
  return prompt;
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

  Status Run(Prompt prompt, const std::atomic<bool>& stop, std::FILE* out) {
    ids_ = std::move(prompt.ids);
    RETURN_IF_ERROR(CheckPrompt());
    if (prompt.hidden) {
      ASSIGN_OR_RETURN(const std::string text, tokenizer_.Decode(ids_));
      stream_ = TextStream(text.size());
    }
    const data::SpecialTokens special = tokenizer_.special();
    for (std::uint64_t i = 0; i < options_.tokens && !stop; ++i) {
      RETURN_IF_ERROR(Print(out, /*last=*/false));
      ASSIGN_OR_RETURN(const std::int32_t next, Next());
      if (special.Ends(next)) break;
      ids_.push_back(next);
    }
    RETURN_IF_ERROR(Print(out, /*last=*/true));
    std::fputc('\n', out);
    return std::fflush(out) == 0 ? Status() : Unavailable("the text cannot be written");
  }

 private:
  Status CheckPrompt() const {
    for (const std::int32_t id : ids_) {
      if (id >= 0 && static_cast<std::size_t>(id) < vocab_size_) continue;
      return InvalidArgument("--tokenizer: it gives the prompt the token " + std::to_string(id) +
                             ", the model's vocab_size is " + std::to_string(vocab_size_) +
                             "; is it the model's?");
    }
    return Status();
  }

  // The logits after all that the model is to see.
  Result<Bytes> ReadOn() {
    if (reading_ == nullptr || first_ + window_ < ids_.size()) {
      const std::uint64_t half = std::max<std::uint64_t>(window_ / 2, 1);
      const std::uint64_t kept = reading_ == nullptr ? window_ : half;
      first_ = ids_.size() - std::min<std::uint64_t>(ids_.size(), kept);
      read_ = first_;
      ASSIGN_OR_RETURN(reading_, stage_.BeginReading(stage_.version()));
    }
    const std::span<const std::int32_t> unread = std::span(ids_).subspan(read_);
    read_ = ids_.size();
    return reading_->Read(unread);
  }

  Result<std::int32_t> Next() {
    ASSIGN_OR_RETURN(const Bytes logits, ReadOn());
    std::vector<float> last(vocab_size_);
    std::memcpy(last.data(), logits.data(), vocab_size_ * sizeof(float));
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
  std::unique_ptr<model::Reading> reading_;
  std::uint64_t first_ = 0;  // of ids_ that reading_ has seen
  std::uint64_t read_ = 0;   // end of those
};

Status CheckOptions(const GenerateOptions& options) {
  if (data::FindInvalidUtf8(options.prompt)) return InvalidArgument("--prompt: is not UTF-8");
  if (data::FindInvalidUtf8(options.system)) return InvalidArgument("--system: is not UTF-8");
  if (options.system.empty() || options.chat) return Status();
  return InvalidArgument("--system: only --chat tells it to the model");
}

// Until the text has begun, there is nothing to end in order.
struct Interruption {
  std::atomic<bool> begun = false, stop = false;
};

Status Write(const GenerateOptions& options, const TrainedModel& found,
             const OpenedTokenizer& opened, Interruption& interruption, std::FILE* out) {
  ASSIGN_OR_RETURN(Prompt prompt, ReadPrompt(options, opened));
  ASSIGN_OR_RETURN(const auto stage, LoadWholeModel(found, options.threads, options.device));
  interruption.begun = true;
  return Generator(options, *opened.tokenizer, *stage, found.sequence_length(),
                   found.config.vocab_size)
      .Run(std::move(prompt), interruption.stop, out);
}

Status Generate(const GenerateOptions& options, std::FILE* out, std::FILE* err) {
  RETURN_IF_ERROR(CheckOptions(options));
  Signals signals{SIGINT, SIGTERM};  // before there are other threads
  Interruption interruption;
  const Signals::Listener listener(signals, [&] {
    if (!interruption.begun || interruption.stop.exchange(true)) {
      std::_Exit(static_cast<int>(ExitCode::kKilled));
    }
  });
  ASSIGN_OR_RETURN(const TrainedModel found, FindModel(options.model));
  ASSIGN_OR_RETURN(const OpenedTokenizer opened, OpenTokenizer(options, found, err));
  return Write(options, found, opened, interruption, out);
}

}  // namespace

Result<std::string> SampleText(const GenerateOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(const TrainedModel found, FindModel(options.model));
  if (ChooseTokenizer(found, options.tokenizer).kind == api::TokenizerKind::kAuto) {
    return FailedPrecondition(options.model + ": the model comes without a tokenizer");
  }
  ASSIGN_OR_RETURN(const OpenedTokenizer opened, OpenTokenizer(options, found, stderr));
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const out = ::open_memstream(&text, &size);
  if (out == nullptr) return ResourceExhausted("there is no memory for a text");
  Interruption interruption;
  const Status status = Write(options, found, opened, interruption, out);
  std::fclose(out);
  std::string sample(text, size);
  std::free(text);
  RETURN_IF_ERROR(status);
  return sample;
}

ExitCode GenerateText(const GenerateOptions& options, std::FILE* out, std::FILE* err) {
  const Status status = Generate(options, out, err);
  if (status.ok()) return ExitCode::kOk;
  std::fprintf(err, "%s\n", status.message().c_str());
  return ExitCodeOf(status);
}

}  // namespace swarm::ctl
