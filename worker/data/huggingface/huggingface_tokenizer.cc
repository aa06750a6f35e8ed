// The tokenizer of Hugging Face's library: a module in Rust, opened at run time.
#include "worker/data/huggingface/file_names.h"
#include "worker/data/huggingface/library.h"
#include "worker/data/huggingface/special_tokens.h"
#include "worker/data/tokenizer.h"

namespace swarm::data {
namespace {

class HuggingFaceTokenizer final : public Tokenizer {
 public:
  explicit HuggingFaceTokenizer(const HuggingFaceLibrary& library) : library_(library) {}
  ~HuggingFaceTokenizer() override { library_.close(handle_); }
  HuggingFaceTokenizer(const HuggingFaceTokenizer&) = delete;
  HuggingFaceTokenizer& operator=(const HuggingFaceTokenizer&) = delete;

  Status Load(const TokenizerFiles& files) {
    SwarmHuggingFaceText error{};
    const std::string_view json = files.files.at(kTokenizerJson).text();
    const auto code = library_.open(HuggingFaceLibrary::View(json), &handle_, &error);
    if (code != kSwarmHuggingFaceOk) {
      const Status status = library_.ToStatus(code, error);
      return DataLoss(std::string(kTokenizerJson) + " makes no tokenizer: " + status.message());
    }
    const auto id_of = [this](std::string_view token) {
      const std::int64_t id = library_.id_of(handle_, HuggingFaceLibrary::View(token));
      return id < 0 ? std::optional<std::int32_t>() : static_cast<std::int32_t>(id);
    };
    ASSIGN_OR_RETURN(special_, ReadSpecialTokens(files, id_of));
    return Status();
  }

  Result<std::vector<std::vector<std::int32_t>>> EncodeAll(
      std::span<const std::string_view> texts) const override {
    std::vector<SwarmHuggingFaceView> views;
    views.reserve(texts.size());
    for (const std::string_view text : texts) views.push_back(HuggingFaceLibrary::View(text));
    std::vector<std::size_t> lengths(texts.size());
    SwarmHuggingFaceIds ids{};
    SwarmHuggingFaceText error{};
    const auto code =
        library_.encode(handle_, views.data(), views.size(), &ids, lengths.data(), &error);
    if (code != kSwarmHuggingFaceOk) return library_.ToStatus(code, error);
    std::vector<std::vector<std::int32_t>> all;
    all.reserve(texts.size());
    const std::uint32_t* next = ids.data;
    for (const std::size_t length : lengths) {
      all.emplace_back(next, next + length);
      next += length;
    }
    library_.free_ids(ids);
    return all;
  }

  Result<std::string> Decode(std::span<const std::int32_t> ids) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= 0 && ids[i] < vocab_size()) continue;
      return InvalidArgument("id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                             ", the tokenizer has " + std::to_string(vocab_size()) + " ids");
    }
    const std::vector<std::uint32_t> unsigned_ids(ids.begin(), ids.end());
    SwarmHuggingFaceText text{}, error{};
    const auto code =
        library_.decode(handle_, unsigned_ids.data(), unsigned_ids.size(), &text, &error);
    if (code != kSwarmHuggingFaceOk) return library_.ToStatus(code, error);
    return library_.Take(text);
  }

  std::int64_t vocab_size() const override { return library_.vocabulary(handle_); }
  SpecialTokens special() const override { return special_; }

 private:
  const HuggingFaceLibrary& library_;
  const SwarmHuggingFace* handle_ = nullptr;
  SpecialTokens special_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeHuggingFaceTokenizer(const TokenizerFiles& files) {
  ASSIGN_OR_RETURN(const HuggingFaceLibrary* library, HuggingFaceLibrary::Open());
  auto tokenizer = std::make_unique<HuggingFaceTokenizer>(*library);
  RETURN_IF_ERROR(tokenizer->Load(files));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace swarm::data
