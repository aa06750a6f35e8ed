// The data of a job as one long sequence of token ids, in memory or in files.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "base/bytes.h"
#include "base/status.h"
#include "worker/data/data_files.h"
#include "worker/data/documents/encode_file.h"
#include "worker/data/tokenizer.h"

namespace swarm::data {

struct CorpusOptions {
  std::string uri;                                      ///< as FindDataFiles takes it
  api::Storage storage;                                 ///< for s3:// uris
  api::TokenType token_type = api::TokenType::kUInt16;  ///< of .bin files, little endian
  std::int64_t vocab_size = 0;                          ///< the model's: every id must be below
  std::uint64_t tokens_per_sequence = 0;       ///< L + 1; a corpus with fewer tokens is an error
  std::shared_ptr<const Tokenizer> tokenizer;  ///< for text, JSON lines and Parquet
  EncodeOptions documents;
  /// What the ids of text may occupy: they are kept in memory. Shards are read when they are
  /// needed.
  std::uint64_t text_bytes_max = std::numeric_limits<std::uint64_t>::max();
  OpenStorage open = storage::Storage::Open;
};

/// The files of the uri, concatenated in the order of their names; text is as EncodeFile encodes
/// it. Where they have examples, all of them do, and the sequences of examples begin at multiples
/// of tokens_per_sequence - 1. Immutable after Open; safe to read from any thread.
///
/// Memory: a byte a token for text as bytes; 2 bytes a token for a vocabulary up to 65536, else 4,
/// for other text; 4 for examples; nothing for shards. Files must not change meanwhile.
class Corpus {
 public:
  /// Reads and checks all text, and of shards the sizes and a sample of the ids, so that shards are
  /// open within seconds whatever their size. Errors name file and place: kInvalidArgument (no such
  /// files, text that is not UTF-8, a bad document, a shard that is cut off, an id that the model
  /// does not have, a tokenizer with more ids than the model, too few tokens, too much text),
  /// kDataLoss (a file of Parquet, or a compressed one, is damaged or cut off), or those of
  /// Storage.
  static Result<std::unique_ptr<Corpus>> Open(const CorpusOptions& options);

  std::uint64_t token_count() const { return token_count_; }
  /// Whether a tokenizer made some of the ids.
  bool has_text() const { return has_text_; }
  /// Whether it is of examples, whose tokens have marks (worker/token.h).
  bool has_examples() const { return has_examples_; }
  /// How many of the `count` tokens from `begin` on count as labels. Requires what Read requires.
  std::uint64_t CountLearned(std::uint64_t begin, std::uint64_t count) const;
  /// Whether no Read needs a file, so that none fails or waits.
  bool in_memory() const { return in_memory_; }
  /// The memory that the ids of text take.
  std::uint64_t text_bytes() const { return text_bytes_; }
  const DocumentCounts& documents() const { return documents_; }

  /// The ids from `begin` on; of examples with their marks. May wait for a disk or a bucket.
  /// Requires begin + count <= token_count(). Errors: those of Storage, kInvalidArgument (an id
  /// that the model does not have, with its file and position).
  Result<std::vector<std::int32_t>> Read(std::uint64_t begin, std::uint64_t count) const;

 private:
  /// Consecutive ids, `width` bytes each, of one file.
  struct Segment {
    std::uint64_t begin = 0;  ///< the corpus' position of its first token
    std::uint64_t count = 0;
    int width = 0;
    Bytes ids;         ///< of text
    std::string file;  ///< of a shard: its name in the storage
  };

  explicit Corpus(const CorpusOptions& options) : vocab_size_(options.vocab_size) {}
  Status AddFile(const DataFile& file, const CorpusOptions& options);
  Status AddText(const DataFile& file, const CorpusOptions& options);
  void AddSegment(Segment segment);
  /// Adds the label of the last sequence's last token, which does not count.
  void EndExamples();
  /// Reads at places that are spread over all shards.
  Status CheckSample() const;
  Status ReadPart(const Segment& segment, std::uint64_t from, std::uint64_t count,
                  std::int32_t* out) const;

  const std::int64_t vocab_size_;
  std::shared_ptr<storage::Storage> storage_;
  std::vector<Segment> segments_;
  std::uint64_t token_count_ = 0;
  std::uint64_t text_bytes_ = 0;
  bool has_text_ = false;
  bool in_memory_ = true;
  bool has_examples_ = false;
  DocumentCounts documents_;
};

}  // namespace swarm::data
