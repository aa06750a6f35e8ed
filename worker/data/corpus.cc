#include "worker/data/corpus.h"

#include <algorithm>
#include <cstring>

#include "worker/data/megatron/index.h"
#include "worker/token.h"

namespace swarm::data {
namespace {

// Of the ids of shards, before training: at so many places, so many each.
constexpr std::uint64_t kSamplePlaces = 16;
constexpr std::uint64_t kSampleTokens = 4096;

// Ids of `width` bytes each as numbers. Returns the index of the first that the model does not
// have, or `count`; numbers behind it are not written.
template <typename Id>
std::uint64_t WidenIds(const std::byte* ids, std::uint64_t count, std::int64_t vocab_size,
                       std::int32_t* out) {
  for (std::uint64_t i = 0; i < count; ++i) {
    Id id;
    std::memcpy(&id, ids + i * sizeof(Id), sizeof(Id));
    if (id >= static_cast<std::uint64_t>(vocab_size)) return i;
    out[i] = static_cast<std::int32_t>(id);
  }
  return count;
}

std::uint64_t Widen(int width, const std::byte* ids, std::uint64_t count, std::int64_t vocab_size,
                    std::int32_t* out) {
  switch (width) {
    case 1:
      return WidenIds<std::uint8_t>(ids, count, vocab_size, out);
    case 2:
      return WidenIds<std::uint16_t>(ids, count, vocab_size, out);
    case 4:
      return WidenIds<std::uint32_t>(ids, count, vocab_size, out);
    default:
      return WidenIds<std::uint64_t>(ids, count, vocab_size, out);
  }
}

std::uint64_t IdAt(int width, const std::byte* ids, std::uint64_t i) {
  std::uint64_t id = 0;
  std::memcpy(&id, ids + i * static_cast<std::uint64_t>(width), static_cast<std::size_t>(width));
  return id;
}

Status CheckTokenizer(const CorpusOptions& options) {
  if (options.tokenizer->vocab_size() <= options.vocab_size) return Status();
  const std::string& uri = options.documents.tokenizer_files.uri;
  return InvalidArgument("the tokenizer " + uri + (uri.empty() ? "" : " ") + "has " +
                         std::to_string(options.tokenizer->vocab_size()) +
                         " ids, the model's vocab_size is " + std::to_string(options.vocab_size) +
                         "; is it the model's?");
}

}  // namespace

Result<std::unique_ptr<Corpus>> Corpus::Open(const CorpusOptions& options) {
  // Bytes are no choice of the user's where there are only shards.
  if (options.tokenizer != nullptr && !options.tokenizer->is_bytes()) {
    RETURN_IF_ERROR(CheckTokenizer(options));
  }
  ASSIGN_OR_RETURN(const DataFiles found,
                   FindDataFiles(options.uri, options.storage, options.open));
  std::unique_ptr<Corpus> corpus(new Corpus(options));
  corpus->storage_ = found.storage;
  const auto has_examples = [&](const DataFile& file) {
    return HasExamples(file.format, options.documents);
  };
  corpus->has_examples_ = std::ranges::any_of(found.files, has_examples);
  if (corpus->has_examples_ && !std::ranges::all_of(found.files, has_examples)) {
    return InvalidArgument(options.uri +
                           " has examples, and also files without; give those as a"
                           " source of their own, in data.sources");
  }
  for (const DataFile& file : found.files) RETURN_IF_ERROR(corpus->AddFile(file, options));
  if (corpus->has_examples_) corpus->EndExamples();
  if (corpus->token_count_ < options.tokens_per_sequence) {
    return InvalidArgument(options.uri + " holds " + std::to_string(corpus->token_count_) +
                           " tokens; one sequence and its labels need " +
                           std::to_string(options.tokens_per_sequence) +
                           corpus->documents_.TextOfSkipped());
  }
  RETURN_IF_ERROR(corpus->CheckSample());
  return corpus;
}

Status Corpus::AddFile(const DataFile& file, const CorpusOptions& options) {
  const std::string path = storage_->Describe(file.name);
  if (file.size == 0) return InvalidArgument(path + " is empty");
  if (file.format.kind == FileKind::kText || HasDocuments(file.format.kind)) {
    return AddText(file, options);
  }
  int width = options.token_type == api::TokenType::kUInt16 ? 2 : 4;
  if (file.format.kind == FileKind::kMegatron) {
    ASSIGN_OR_RETURN(width, ReadMegatronWidth(*storage_, file.name, file.size));
  }
  if (file.size % static_cast<std::uint64_t>(width) != 0) {
    return InvalidArgument(path + " is cut off: " + std::to_string(file.size) +
                           " bytes are no multiple of " + std::to_string(width) +
                           ", the bytes of an id");
  }
  in_memory_ = false;
  AddSegment(
      {.count = file.size / static_cast<std::uint64_t>(width), .width = width, .file = file.name});
  return Status();
}

Status Corpus::AddText(const DataFile& file, const CorpusOptions& options) {
  const std::string path = storage_->Describe(file.name);
  if (options.tokenizer == nullptr) {
    return InvalidArgument(path +
                           " is text, and there is no tokenizer; name one, as"
                           " model.tokenizer in a manifest");
  }
  RETURN_IF_ERROR(CheckTokenizer(options));
  has_text_ = true;
  // Text is copied, since a user may edit it during training.
  ASSIGN_OR_RETURN(const Bytes content, storage_->Read(file.name));
  ASSIGN_OR_RETURN(const EncodedFile encoded,
                   EncodeFile(path, file.format, content, *options.tokenizer, options.documents));
  documents_.Add(encoded.documents);
  text_bytes_ += encoded.ids.size();
  if (text_bytes_ > options.text_bytes_max) {
    return InvalidArgument(options.uri + " is too much text: its ids need more than the " +
                           std::to_string(options.text_bytes_max) +
                           " bytes of data.cacheBytes. Make shards of it with swarmctl tokenize,"
                           " or give more");
  }
  AddSegment({.count = encoded.ids.size() / static_cast<std::size_t>(encoded.width),
              .width = encoded.width,
              .ids = encoded.ids});
  return Status();
}

void Corpus::EndExamples() {
  const std::int32_t last = Token{.learned = false}.Write();
  AddSegment({.count = 1, .width = sizeof(last), .ids = Bytes::Copy(&last, sizeof(last))});
}

std::uint64_t Corpus::CountLearned(std::uint64_t begin, std::uint64_t count) const {
  if (!has_examples_) return count;
  const auto tokens = Read(begin, count);
  SWARM_CHECK(tokens.ok(), "examples are in memory");
  return static_cast<std::uint64_t>(std::ranges::count_if(
      *tokens, [](std::int32_t token) { return Token::Read(token).learned; }));
}

void Corpus::AddSegment(Segment segment) {
  if (segment.count == 0) return;
  segment.begin = token_count_;
  token_count_ += segment.count;
  segments_.push_back(std::move(segment));
}

Status Corpus::CheckSample() const {
  if (in_memory_) return Status();
  if (token_count_ <= kSamplePlaces * kSampleTokens) return Read(0, token_count_).status();
  const std::uint64_t last = token_count_ - kSampleTokens;
  for (std::uint64_t i = 0; i < kSamplePlaces; ++i) {
    const std::uint64_t place = last / (kSamplePlaces - 1) * i;
    RETURN_IF_ERROR(Read(place, kSampleTokens).status());
  }
  return Status();
}

Result<std::vector<std::int32_t>> Corpus::Read(std::uint64_t begin, std::uint64_t count) const {
  SWARM_CHECK(count <= token_count_ && begin <= token_count_ - count, "tokens beyond the corpus");
  std::vector<std::int32_t> ids(count);
  auto segment = std::upper_bound(segments_.begin(), segments_.end(), begin,
                                  [](std::uint64_t at, const Segment& s) { return at < s.begin; });
  --segment;
  for (std::uint64_t done = 0; done < count; ++segment) {
    const std::uint64_t from = begin + done - segment->begin;
    const std::uint64_t part = std::min(count - done, segment->count - from);
    RETURN_IF_ERROR(ReadPart(*segment, from, part, ids.data() + done));
    done += part;
  }
  return ids;
}

Status Corpus::ReadPart(const Segment& segment, std::uint64_t from, std::uint64_t count,
                        std::int32_t* out) const {
  const auto width = static_cast<std::uint64_t>(segment.width);
  Bytes ids;
  if (has_examples_) {
    std::memcpy(out, segment.ids.data() + from * width, count * width);
    return Status();
  }
  if (segment.file.empty()) {
    ids = segment.ids.Slice(from * width, count * width);
  } else {
    ASSIGN_OR_RETURN(ids, storage_->ReadRange(segment.file, from * width, count * width));
  }
  const std::uint64_t good = Widen(segment.width, ids.data(), count, vocab_size_, out);
  if (good == count) return Status();
  return InvalidArgument(storage_->Describe(segment.file) + ": id " +
                         std::to_string(IdAt(segment.width, ids.data(), good)) + " at position " +
                         std::to_string(from + good) + ", the model's vocab_size is " +
                         std::to_string(vocab_size_) + "; is tokenType right?");
}

}  // namespace swarm::data
