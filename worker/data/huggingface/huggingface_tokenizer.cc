// The tokenizer of Hugging Face's library: a module in Rust, opened at run time.
#include "worker/data/huggingface/file_names.h"
#include "worker/data/huggingface/special_tokens.h"
#include "worker/data/huggingface/swarm_huggingface.h"
#include "worker/data/module.h"
#include "worker/data/tokenizer.h"

namespace swarm::data {
namespace {

// The functions of the module.
struct Library {
  decltype(&swarm_huggingface_open) open;
  decltype(&swarm_huggingface_close) close;
  decltype(&swarm_huggingface_vocabulary) vocabulary;
  decltype(&swarm_huggingface_id_of) id_of;
  decltype(&swarm_huggingface_encode) encode;
  decltype(&swarm_huggingface_decode) decode;
  decltype(&swarm_huggingface_free_text) free_text;
  decltype(&swarm_huggingface_free_ids) free_ids;
};

template <typename Function>
Status Find(const char* name, Function* function) {
  ASSIGN_OR_RETURN(void* const entry, FindInModule("libswarm_huggingface.so", name));
  *function = reinterpret_cast<Function>(entry);
  return Status();
}

Result<Library> OpenLibrary() {
  Library library{};
  RETURN_IF_ERROR(Find("swarm_huggingface_open", &library.open));
  RETURN_IF_ERROR(Find("swarm_huggingface_close", &library.close));
  RETURN_IF_ERROR(Find("swarm_huggingface_vocabulary", &library.vocabulary));
  RETURN_IF_ERROR(Find("swarm_huggingface_id_of", &library.id_of));
  RETURN_IF_ERROR(Find("swarm_huggingface_encode", &library.encode));
  RETURN_IF_ERROR(Find("swarm_huggingface_decode", &library.decode));
  RETURN_IF_ERROR(Find("swarm_huggingface_free_text", &library.free_text));
  RETURN_IF_ERROR(Find("swarm_huggingface_free_ids", &library.free_ids));
  return library;
}

SwarmHuggingFaceView View(std::string_view text) { return {text.data(), text.size()}; }

std::string Take(const Library& library, SwarmHuggingFaceText text) {
  std::string taken(text.data, text.size);
  library.free_text(text);
  return taken;
}

Status ToStatus(const Library& library, SwarmHuggingFaceCode code, SwarmHuggingFaceText error) {
  const std::string text = Take(library, error);
  if (code == kSwarmHuggingFacePanicked) {
    return Internal("Hugging Face's tokenizers have failed: " + text);
  }
  return InvalidArgument(text);
}

class HuggingFaceTokenizer final : public Tokenizer {
 public:
  explicit HuggingFaceTokenizer(const Library& library) : library_(library) {}
  ~HuggingFaceTokenizer() override { library_.close(handle_); }
  HuggingFaceTokenizer(const HuggingFaceTokenizer&) = delete;
  HuggingFaceTokenizer& operator=(const HuggingFaceTokenizer&) = delete;

  Status Load(const TokenizerFiles& files) {
    SwarmHuggingFaceText error{};
    const std::string_view json = files.files.at(kTokenizerJson).text();
    const auto code = library_.open(View(json), &handle_, &error);
    if (code != kSwarmHuggingFaceOk) {
      const Status status = ToStatus(library_, code, error);
      return DataLoss(std::string(kTokenizerJson) + " makes no tokenizer: " + status.message());
    }
    const auto id_of = [this](std::string_view token) {
      const std::int64_t id = library_.id_of(handle_, View(token));
      return id < 0 ? std::optional<std::int32_t>() : static_cast<std::int32_t>(id);
    };
    ASSIGN_OR_RETURN(special_, ReadSpecialTokens(files, id_of));
    return Status();
  }

  Result<std::vector<std::vector<std::int32_t>>> EncodeAll(
      std::span<const std::string_view> texts) const override {
    std::vector<SwarmHuggingFaceView> views;
    views.reserve(texts.size());
    for (const std::string_view text : texts) views.push_back(View(text));
    std::vector<std::size_t> lengths(texts.size());
    SwarmHuggingFaceIds ids{};
    SwarmHuggingFaceText error{};
    const auto code =
        library_.encode(handle_, views.data(), views.size(), &ids, lengths.data(), &error);
    if (code != kSwarmHuggingFaceOk) return ToStatus(library_, code, error);
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
    if (code != kSwarmHuggingFaceOk) return ToStatus(library_, code, error);
    return Take(library_, text);
  }

  std::int64_t vocab_size() const override { return library_.vocabulary(handle_); }
  SpecialTokens special() const override { return special_; }

 private:
  const Library& library_;
  const SwarmHuggingFace* handle_ = nullptr;
  SpecialTokens special_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> MakeHuggingFaceTokenizer(const TokenizerFiles& files) {
  static const auto library = OpenLibrary();
  if (!library.ok()) return library.status();
  auto tokenizer = std::make_unique<HuggingFaceTokenizer>(*library);
  RETURN_IF_ERROR(tokenizer->Load(files));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace swarm::data
