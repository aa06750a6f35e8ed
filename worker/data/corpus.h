// The training data as one long sequence of token ids, and the rule for the tokens that a
// microbatch gets. The rule is deterministic: the cursor of the data is (seed, step), and nothing
// else is stored.
#pragma once

#include <cstdint>
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
  std::string uri;       ///< as FindDataFiles takes it
  api::Storage storage;  ///< for s3:// uris
  api::TokenType token_type = api::TokenType::kUInt16;  ///< of .bin files, little endian
  std::int64_t vocab_size = 0;                          ///< the model's: every id must be below
  std::uint64_t tokens_per_sequence = 0;       ///< L + 1; a corpus with fewer tokens is an error
  std::shared_ptr<const Tokenizer> tokenizer;  ///< for text and JSON lines
  EncodeOptions documents;
};

/// The files of the uri, concatenated in the order of their names; text is as EncodeFile encodes
/// it. Immutable after Open; safe to read from any thread.
///
/// Memory: a byte a token for text as bytes; 2 bytes a token for a vocabulary up to 65536, else 4,
/// for other text; nothing for local .bin files, which are mapped (do not change them meanwhile).
class Corpus {
 public:
  /// Reads and checks everything before training starts. Errors name file and place:
  /// kInvalidArgument (no such files, text that is not UTF-8, a bad document, a shard that is cut
  /// off, an id that the model does not have, a tokenizer with more ids than the model, too few
  /// tokens), kDataLoss (a compressed file is damaged or cut off), or those of Storage.
  static Result<std::unique_ptr<Corpus>> Open(const CorpusOptions& options);

  std::uint64_t token_count() const { return token_count_; }
  /// Whether a tokenizer made some of the ids.
  bool has_text() const { return has_text_; }
  const DocumentCounts& documents() const { return documents_; }

  /// `sequences` rows of tokens_per_sequence consecutive ids. Row r begins at a place that is a
  /// function of (seed, step, microbatch, r) alone, uniform over all places where a row fits.
  /// Requires 0 < tokens_per_sequence <= token_count().
  std::vector<std::int32_t> Draw(std::uint64_t seed, std::uint64_t step, std::uint64_t microbatch,
                                 std::uint32_t sequences, std::uint32_t tokens_per_sequence) const;

  /// How many windows there are for Window.
  std::uint64_t WindowCount(std::uint32_t tokens_per_sequence) const {
    return token_count_ / tokens_per_sequence;
  }
  /// The i-th of the consecutive windows that do not overlap, for validation.
  /// Requires i < WindowCount(tokens_per_sequence).
  std::vector<std::int32_t> Window(std::uint64_t i, std::uint32_t tokens_per_sequence) const;

 private:
  /// Ids of one file, `width` bytes each.
  struct Segment {
    std::uint64_t begin = 0;  ///< the corpus' position of its first token
    std::uint64_t count = 0;
    int width = 0;
    Bytes ids;
  };

  Corpus() = default;
  Status AddFile(const std::string& path, const FileFormat& format, const Bytes& content,
                 const CorpusOptions& options);
  void AddSegment(int width, Bytes ids);
  void CopyTokens(std::uint64_t begin, std::uint64_t count, std::int32_t* out) const;

  std::vector<Segment> segments_;
  std::uint64_t token_count_ = 0;
  bool has_text_ = false;
  DocumentCounts documents_;
};

}  // namespace swarm::data
