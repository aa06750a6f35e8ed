#include "worker/data/corpus.h"

#include <algorithm>
#include <cstring>

#include "base/rng.h"

namespace swarm::data {
namespace {

template <typename Id>
Id IdAt(const Bytes& ids, std::uint64_t i) {
  Id id;
  std::memcpy(&id, ids.data() + i * sizeof(Id), sizeof(Id));
  return id;
}

template <typename Id>
Status CheckIds(const std::string& path, const Bytes& ids, std::int64_t vocab_size) {
  for (std::uint64_t i = 0; i < ids.size() / sizeof(Id); ++i) {
    const Id id = IdAt<Id>(ids, i);
    if (id < vocab_size) continue;
    return InvalidArgument(path + ": id " + std::to_string(id) + " at position " +
                           std::to_string(i) + ", the model's vocab_size is " +
                           std::to_string(vocab_size) + "; is tokenType right?");
  }
  return {};
}

Status CheckShard(const std::string& path, const Bytes& content, int width,
                  std::int64_t vocab_size) {
  if (content.size() % static_cast<std::size_t>(width) != 0) {
    return InvalidArgument(path + " is cut off: " + std::to_string(content.size()) +
                           " bytes are no multiple of " + std::to_string(width) +
                           ", the bytes of an id");
  }
  return width == 2 ? CheckIds<std::uint16_t>(path, content, vocab_size)
                    : CheckIds<std::uint32_t>(path, content, vocab_size);
}

Status CheckTokenizer(const CorpusOptions& options) {
  if (options.tokenizer->vocab_size() <= options.vocab_size) return Status();
  return InvalidArgument("the tokenizer has " + std::to_string(options.tokenizer->vocab_size()) +
                         " ids, the model's vocab_size is " + std::to_string(options.vocab_size) +
                         "; is it the model's?");
}

template <typename Id>
void WidenIds(const Bytes& ids, std::uint64_t begin, std::uint64_t count, std::int32_t* out) {
  for (std::uint64_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::int32_t>(IdAt<Id>(ids, begin + i));
  }
}

}  // namespace

Result<std::unique_ptr<Corpus>> Corpus::Open(const CorpusOptions& options) {
  // Bytes are no choice of the user's where there are only shards.
  if (options.tokenizer != nullptr && !options.tokenizer->is_bytes()) {
    RETURN_IF_ERROR(CheckTokenizer(options));
  }
  ASSIGN_OR_RETURN(const DataFiles found, FindDataFiles(options.uri, options.storage));
  std::unique_ptr<Corpus> corpus(new Corpus);
  for (const DataFile& file : found.files) {
    // Text is copied, since a user may edit it during training. Shards are large and made for
    // mapping.
    ASSIGN_OR_RETURN(const Bytes content, file.format.kind == FileKind::kShard
                                              ? found.storage->Map(file.name)
                                              : found.storage->Read(file.name));
    const std::string path = found.storage->Describe(file.name);
    RETURN_IF_ERROR(corpus->AddFile(path, file.format, content, options));
  }
  if (corpus->token_count_ < options.tokens_per_sequence) {
    return InvalidArgument(options.uri + " holds " + std::to_string(corpus->token_count_) +
                           " tokens; one sequence and its labels need " +
                           std::to_string(options.tokens_per_sequence) +
                           corpus->documents_.TextOfSkipped());
  }
  return corpus;
}

Status Corpus::AddFile(const std::string& path, const FileFormat& format, const Bytes& content,
                       const CorpusOptions& options) {
  if (content.empty()) return InvalidArgument(path + " is empty");
  if (format.kind == FileKind::kShard) {
    const int width = options.token_type == api::TokenType::kUInt16 ? 2 : 4;
    RETURN_IF_ERROR(CheckShard(path, content, width, options.vocab_size));
    AddSegment(width, content);
    return {};
  }
  if (options.tokenizer == nullptr) {
    return InvalidArgument(path +
                           " is text, and there is no tokenizer; name one, as"
                           " model.tokenizer in a manifest");
  }
  RETURN_IF_ERROR(CheckTokenizer(options));
  has_text_ = true;
  ASSIGN_OR_RETURN(const EncodedFile encoded,
                   EncodeFile(path, format, content, *options.tokenizer, options.documents));
  documents_.Add(encoded.documents);
  AddSegment(encoded.width, encoded.ids);
  return Status();
}

void Corpus::AddSegment(int width, Bytes ids) {
  const std::uint64_t count = ids.size() / static_cast<std::size_t>(width);
  if (count == 0) return;
  segments_.push_back({token_count_, count, width, std::move(ids)});
  token_count_ += count;
}

void Corpus::CopyTokens(std::uint64_t begin, std::uint64_t count, std::int32_t* out) const {
  SWARM_CHECK(count <= token_count_ && begin <= token_count_ - count, "tokens beyond the corpus");
  auto segment = std::upper_bound(segments_.begin(), segments_.end(), begin,
                                  [](std::uint64_t at, const Segment& s) { return at < s.begin; });
  for (--segment; count > 0; ++segment) {
    const std::uint64_t from = begin - segment->begin;
    const std::uint64_t part = std::min(count, segment->count - from);
    switch (segment->width) {
      case 1:
        WidenIds<std::uint8_t>(segment->ids, from, part, out);
        break;
      case 2:
        WidenIds<std::uint16_t>(segment->ids, from, part, out);
        break;
      default:
        WidenIds<std::uint32_t>(segment->ids, from, part, out);
        break;
    }
    begin += part;
    out += part;
    count -= part;
  }
}

std::vector<std::int32_t> Corpus::Draw(std::uint64_t seed, std::uint64_t step,
                                       std::uint64_t microbatch, std::uint32_t sequences,
                                       std::uint32_t tokens_per_sequence) const {
  SWARM_CHECK(tokens_per_sequence > 0 && tokens_per_sequence <= token_count_,
              "a sequence longer than the corpus");
  const std::uint64_t places = token_count_ - tokens_per_sequence + 1;
  std::vector<std::int32_t> ids(std::size_t{sequences} * tokens_per_sequence);
  for (std::uint32_t row = 0; row < sequences; ++row) {
    Rng rng(MixAll(MixName(seed, "data"), step, microbatch, row));
    CopyTokens(rng.Below(places), tokens_per_sequence,
               ids.data() + std::size_t{row} * tokens_per_sequence);
  }
  return ids;
}

std::vector<std::int32_t> Corpus::Window(std::uint64_t i, std::uint32_t tokens_per_sequence) const {
  SWARM_CHECK(i < WindowCount(tokens_per_sequence), "a window beyond the corpus");
  std::vector<std::int32_t> ids(tokens_per_sequence);
  CopyTokens(i * tokens_per_sequence, tokens_per_sequence, ids.data());
  return ids;
}

}  // namespace swarm::data
