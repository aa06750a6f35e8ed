// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/swarmjob.h"
#include "base/bytes.h"
#include "base/status.h"

namespace swarm::data {

/// Immutable; safe to use from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids in [0, vocab_size). `text` is UTF-8; adds no token before or after it.
  virtual std::vector<std::int32_t> Encode(std::string_view text) const = 0;
  /// Errors: kInvalidArgument (an id out of range, with its position).
  virtual Result<std::string> Decode(std::span<const std::int32_t> ids) const = 0;
  virtual std::int64_t vocab_size() const = 0;
  /// Whether the ids of a text are its bytes, so that they need no copy.
  virtual bool is_bytes() const { return false; }
};

/// An id is a byte: 256 ids, no model file, every text exactly.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

/// A SentencePiece model (the content of its .model file). Errors: kDataLoss (not such a file).
Result<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(const Bytes& model);

/// The tokenizer of a job. Errors: those of Storage and MakeSentencePieceTokenizer, naming the uri.
Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const api::Tokenizer& tokenizer,
                                                 const api::Storage& storage);

}  // namespace swarm::data
