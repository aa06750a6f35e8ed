// A file of text, JSON lines or Parquet to the ids of its documents, or of its examples.
#pragma once

#include <cstdint>
#include <string>

#include "api/swarmjob.h"
#include "base/bytes.h"
#include "base/status.h"
#include "worker/data/data_files.h"
#include "worker/data/tokenizer.h"
#include "worker/data/tokenizer_files.h"

namespace swarm::data {

struct EncodeOptions {
  /// Of JSON lines and Parquet. Other than Text, they are examples (supervised/example.h).
  api::DataFormat format = api::DataFormat::kText;
  std::string text_field = "text";  ///< of JSON lines; a column of Parquet
  api::OnBadDocument on_bad_document = api::OnBadDocument::kFail;
  // Of examples:
  api::DocumentView view = api::DocumentView::kJoined;
  std::uint64_t tokens_per_sequence = 0;  ///< as ExampleOptions has it
  TokenizerFiles tokenizer_files;         ///< with the chat template
};

/// Whether files of this format are examples.
inline bool HasExamples(const FileFormat& format, const EncodeOptions& options) {
  return HasDocuments(format.kind) && options.format != api::DataFormat::kText;
}

/// A file of text is one document; each line of JSON lines is one, and each row of Parquet.
struct DocumentCounts {
  std::uint64_t read = 0;     ///< without those that have no text
  std::uint64_t skipped = 0;  ///< as data.onBadDocument wants it
  std::string first_skipped;  ///< its file, line or row, and reason

  void Add(const DocumentCounts& later);
  /// For people; empty where none was skipped, else it begins with "; ".
  std::string TextOfSkipped() const;
};

struct EncodedFile {
  Bytes ids;
  /// Bytes of an id: 1 as bytes, 2 for a vocabulary up to 65536, else 4. Of examples 4: sequences
  /// of tokens_per_sequence tokens, as worker/token.h writes them.
  int width = 0;
  DocumentCounts documents;
};

/// The documents of `content`, which is that of `path` and no shard, one after the other. A
/// document has the tokenizer's BOS before it and its EOS behind it; documents as bytes end with a
/// line end instead, and a file of text as bytes is as it is and shares the memory of `content`.
/// Examples are packed into sequences (supervised/example_encoder.h).
/// Errors name file and place: kInvalidArgument (text that is not UTF-8, a bad document), kDataLoss
/// (a file of Parquet, or a compressed one, is damaged or cut off).
Result<EncodedFile> EncodeFile(const std::string& path, const FileFormat& format,
                               const Bytes& content, const Tokenizer& tokenizer,
                               const EncodeOptions& options);

/// Whether the first document of a file with documents can be read, as far as no tokenizer is
/// needed for it. Errors: as EncodeFile, for that document alone.
Status CheckFirstDocument(const std::string& path, const FileFormat& format, const Bytes& content,
                          const EncodeOptions& options);

}  // namespace swarm::data
