// Text to token ids and back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/swarmjob.h"
#include "base/bytes.h"
#include "base/status.h"
#include "worker/data/tokenizer_files.h"

namespace swarm::data {

/// The ids around a document.
struct SpecialTokens {
  std::optional<std::int32_t> bos;  ///< stands before it; absent where it would repeat eos
  std::optional<std::int32_t> eos;  ///< stands behind it
  /// Further ids with which a model ends a text, such as the end of a turn.
  std::vector<std::int32_t> other_ends = {};

  bool Ends(std::int32_t id) const {
    return id == eos || std::ranges::find(other_ends, id) != other_ends.end();
  }
};

/// Immutable; safe to use from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids in [0, vocab_size) of each text, which is UTF-8; adds no token before or after it. May
  /// use all cores. Errors: kInvalidArgument (the tokenizer has no id for a part of a text).
  virtual Result<std::vector<std::vector<std::int32_t>>> EncodeAll(
      std::span<const std::string_view> texts) const = 0;
  /// The ids of one text.
  Result<std::vector<std::int32_t>> Encode(std::string_view text) const;
  /// Errors: kInvalidArgument (an id out of range, with its position).
  virtual Result<std::string> Decode(std::span<const std::int32_t> ids) const = 0;
  virtual std::int64_t vocab_size() const = 0;
  virtual SpecialTokens special() const { return {}; }
  /// Whether the ids of a text are its bytes, so that they need no copy.
  virtual bool is_bytes() const { return false; }
};

/// An id is a byte: 256 ids, no model file, every text exactly.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

/// A SentencePiece model (the content of its .model file). Errors: kDataLoss (not such a file).
Result<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(const Bytes& model);

/// What Hugging Face's library makes of a tokenizer.json, with the special tokens that the files
/// beside it name. Errors: kDataLoss (not such files), naming the file.
Result<std::unique_ptr<Tokenizer>> MakeHuggingFaceTokenizer(const TokenizerFiles& files);

/// The tokenizer of these files, which are not of kind Auto. Errors: kDataLoss.
Result<std::unique_ptr<Tokenizer>> MakeTokenizer(const TokenizerFiles& files);

/// The tokenizer of a job or a model. Errors: those of ReadTokenizerFiles and MakeTokenizer, naming
/// the uri.
Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const api::Tokenizer& tokenizer,
                                                 const api::Storage& storage);

}  // namespace swarm::data
