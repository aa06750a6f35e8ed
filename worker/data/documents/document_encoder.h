// Documents to the ids that a corpus keeps of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/data/tokenizer.h"

namespace swarm::data {

/// Encodes documents in batches, so that all cores have work, and appends their ids one after the
/// other, `width` bytes each: BOS, text, EOS. A document without text is left out. As bytes a
/// document is followed by a line end.
class DocumentEncoder {
 public:
  /// Told of a document that the tokenizer cannot encode; an error ends the encoding.
  using OnBad = std::function<Status(const Status& reason, std::uint64_t number)>;

  DocumentEncoder(const Tokenizer& tokenizer, OnBad on_bad)
      : tokenizer_(tokenizer), on_bad_(std::move(on_bad)) {}

  /// The document of a line or row. Errors: those of `on_bad`, also for earlier documents.
  Status Add(std::string text, std::uint64_t number);
  /// Encodes what waits. Errors: as Add.
  Status Flush();
  /// One document of any length, which is encoded in pieces that end at line ends. Nothing may
  /// wait. Errors: those of the tokenizer.
  Status AddLong(std::string_view text);

  /// The documents that have been encoded.
  std::uint64_t count() const { return count_; }
  /// Bytes of an id.
  int width() const;
  /// The ids so far; the encoder has none then.
  Bytes Take();

 private:
  Status EncodeEach();
  void AppendDocument(const std::vector<std::int32_t>& ids);
  void Append(const std::vector<std::int32_t>& ids);

  const Tokenizer& tokenizer_;
  const OnBad on_bad_;
  std::vector<std::string> texts_;  // that wait
  std::vector<std::uint64_t> numbers_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t count_ = 0;
  std::vector<std::byte> ids_;
};

}  // namespace swarm::data
