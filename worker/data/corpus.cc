#include "worker/data/corpus.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/rng.h"
#include "worker/data/utf8.h"
#include "worker/storage/storage.h"

namespace swarm::data {
namespace {

// A tokenizer is given text in pieces that end at the first line end after this many bytes: long
// enough that the joints do not matter, short enough for a tokenizer that works on whole strings.
constexpr std::size_t kTextPieceBytes = std::size_t{64} << 10;

bool IsText(const std::string& name) { return name.ends_with(".txt"); }
bool IsShard(const std::string& name) { return name.ends_with(".bin"); }

struct Files {
  std::unique_ptr<storage::Storage> storage;
  std::vector<std::string> names;
};

Result<Files> FindFiles(const CorpusOptions& options) {
  const std::string path = storage::LocalPath(options.uri);
  std::error_code ignored;
  const bool folder = path.empty() ? !IsText(options.uri) && !IsShard(options.uri)
                                   : std::filesystem::is_directory(path, ignored);
  Files files;
  if (!folder) {
    const storage::SplitUri split = storage::SplitLastName(options.uri);
    ASSIGN_OR_RETURN(files.storage, storage::Storage::Open(split.folder, options.storage));
    files.names.push_back(split.name);
    return files;
  }
  ASSIGN_OR_RETURN(files.storage, storage::Storage::Open(options.uri, options.storage));
  ASSIGN_OR_RETURN(files.names, files.storage->List(""));
  std::erase_if(files.names, [](const std::string& n) { return !IsText(n) && !IsShard(n); });
  if (files.names.empty()) return InvalidArgument(options.uri + " holds no .txt and no .bin files");
  return files;
}

Status CheckText(const std::string& path, std::string_view text) {
  const auto invalid = FindInvalidUtf8(text);
  if (!invalid) return {};
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(*invalid), '\n');
  return InvalidArgument(path + " is not UTF-8: byte " + std::to_string(*invalid) + ", line " +
                         std::to_string(line) + "; convert it, with iconv for example");
}

template <typename Id>
void AppendIds(const std::vector<std::int32_t>& ids, std::vector<std::byte>& out) {
  const std::size_t old = out.size();
  out.resize(old + ids.size() * sizeof(Id));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<Id>(ids[i]);
    std::memcpy(out.data() + old + i * sizeof(Id), &id, sizeof(Id));
  }
}

Bytes EncodeText(const Tokenizer& tokenizer, std::string_view text, int width) {
  auto ids = std::make_shared<std::vector<std::byte>>();
  while (!text.empty()) {
    const std::size_t line_end = text.find('\n', kTextPieceBytes);
    const std::string_view piece = text.substr(0, line_end == text.npos ? line_end : line_end + 1);
    const std::vector<std::int32_t> encoded = tokenizer.Encode(piece);
    width == 2 ? AppendIds<std::uint16_t>(encoded, *ids) : AppendIds<std::uint32_t>(encoded, *ids);
    text.remove_prefix(piece.size());
  }
  ids->shrink_to_fit();
  return Bytes::Wrap(ids->data(), ids->size(), ids);
}

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

Status CheckTokenizer(const std::string& path, const CorpusOptions& options) {
  if (options.tokenizer == nullptr)
    return InvalidArgument(path + " is text; a tokenizer is needed");
  if (options.tokenizer->vocab_size() <= options.vocab_size) return {};
  return InvalidArgument("the tokenizer has " + std::to_string(options.tokenizer->vocab_size()) +
                         " ids, the model's vocab_size is " + std::to_string(options.vocab_size));
}

template <typename Id>
void WidenIds(const Bytes& ids, std::uint64_t begin, std::uint64_t count, std::int32_t* out) {
  for (std::uint64_t i = 0; i < count; ++i) {
    out[i] = static_cast<std::int32_t>(IdAt<Id>(ids, begin + i));
  }
}

}  // namespace

Result<std::unique_ptr<Corpus>> Corpus::Open(const CorpusOptions& options) {
  ASSIGN_OR_RETURN(const Files files, FindFiles(options));
  std::unique_ptr<Corpus> corpus(new Corpus);
  for (const std::string& name : files.names) {
    // Text is copied, since a user may edit it during training. Shards are large and made for
    // mapping.
    ASSIGN_OR_RETURN(const Bytes content,
                     IsShard(name) ? files.storage->Map(name) : files.storage->Read(name));
    RETURN_IF_ERROR(corpus->AddFile(files.storage->Describe(name), content, options));
  }
  if (corpus->token_count_ < options.tokens_per_sequence) {
    return InvalidArgument(options.uri + " holds " + std::to_string(corpus->token_count_) +
                           " tokens; one sequence and its labels need " +
                           std::to_string(options.tokens_per_sequence));
  }
  return corpus;
}

Status Corpus::AddFile(const std::string& path, const Bytes& content,
                       const CorpusOptions& options) {
  if (content.empty()) return InvalidArgument(path + " is empty");
  if (IsShard(path)) {
    const int width = options.token_type == api::TokenType::kUInt16 ? 2 : 4;
    RETURN_IF_ERROR(CheckShard(path, content, width, options.vocab_size));
    AddSegment(width, content);
    return {};
  }
  RETURN_IF_ERROR(CheckTokenizer(path, options));
  RETURN_IF_ERROR(CheckText(path, content.text()));
  if (options.tokenizer->is_bytes()) {
    AddSegment(1, content);
  } else {
    const int width = options.tokenizer->vocab_size() <= 65536 ? 2 : 4;
    AddSegment(width, EncodeText(*options.tokenizer, content.text(), width));
  }
  return {};
}

void Corpus::AddSegment(int width, Bytes ids) {
  const std::uint64_t count = ids.size() / static_cast<std::size_t>(width);
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
