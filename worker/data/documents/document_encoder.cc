#include "worker/data/documents/document_encoder.h"

#include <algorithm>
#include <cstring>

namespace swarm::data {
namespace {

// Enough work for all cores, and little memory beside the ids.
constexpr std::size_t kBatchBytes = std::size_t{4} << 20;
constexpr std::size_t kBatchDocuments = 4096;
// A long text is encoded in pieces that end at the first line end after this many bytes: long
// enough that the joints do not matter, short enough for a tokenizer that works on whole strings.
constexpr std::size_t kTextBytes = std::size_t{64} << 10;

template <typename Id>
void AppendAs(const std::vector<std::int32_t>& ids, std::vector<std::byte>& out) {
  const std::size_t old = out.size();
  out.resize(old + ids.size() * sizeof(Id));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<Id>(ids[i]);
    std::memcpy(out.data() + old + i * sizeof(Id), &id, sizeof(Id));
  }
}

}  // namespace

int DocumentEncoder::width() const {
  if (tokenizer_.is_bytes()) return 1;
  return tokenizer_.vocab_size() <= 65536 ? 2 : 4;
}

Bytes DocumentEncoder::Take() {
  ids_.shrink_to_fit();
  auto taken = std::make_shared<std::vector<std::byte>>(std::move(ids_));
  ids_.clear();
  return Bytes::Wrap(taken->data(), taken->size(), taken);
}

Status DocumentEncoder::Add(std::string text, std::uint64_t number) {
  if (text.empty()) return Status();
  waiting_bytes_ += text.size();
  texts_.push_back(std::move(text));
  numbers_.push_back(number);
  if (waiting_bytes_ < kBatchBytes && texts_.size() < kBatchDocuments) return Status();
  return Flush();
}

Status DocumentEncoder::Flush() {
  const std::vector<std::string_view> views(texts_.begin(), texts_.end());
  const auto encoded = tokenizer_.EncodeAll(views);
  Status status;
  if (encoded.ok()) {
    for (const auto& ids : *encoded) AppendDocument(ids);
  } else {
    status = EncodeEach();
  }
  texts_.clear();
  numbers_.clear();
  waiting_bytes_ = 0;
  return status;
}

// Finds the documents of a batch that cannot be encoded.
Status DocumentEncoder::EncodeEach() {
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const auto ids = tokenizer_.Encode(texts_[i]);
    if (ids.ok()) {
      AppendDocument(*ids);
    } else {
      RETURN_IF_ERROR(on_bad_(ids.status(), numbers_[i]));
    }
  }
  return Status();
}

Status DocumentEncoder::AddLong(std::string_view text) {
  if (const auto bos = tokenizer_.special().bos) Append({*bos});
  while (!text.empty()) {
    std::vector<std::string_view> pieces;
    for (std::size_t bytes = 0; !text.empty() && bytes < kBatchBytes;) {
      const std::size_t line_end = text.find('\n', kTextBytes);
      pieces.push_back(text.substr(0, line_end == text.npos ? line_end : line_end + 1));
      bytes += pieces.back().size();
      text.remove_prefix(pieces.back().size());
    }
    ASSIGN_OR_RETURN(const auto encoded, tokenizer_.EncodeAll(pieces));
    for (const auto& ids : encoded) Append(ids);
  }
  if (const auto eos = tokenizer_.special().eos) Append({*eos});
  ++count_;
  return Status();
}

void DocumentEncoder::AppendDocument(const std::vector<std::int32_t>& ids) {
  const SpecialTokens special = tokenizer_.special();
  if (special.bos) Append({*special.bos});
  Append(ids);
  if (special.eos) Append({*special.eos});
  if (tokenizer_.is_bytes()) Append({'\n'});
  ++count_;
}

void DocumentEncoder::Append(const std::vector<std::int32_t>& ids) {
  switch (width()) {
    case 1:
      return AppendAs<std::uint8_t>(ids, ids_);
    case 2:
      return AppendAs<std::uint16_t>(ids, ids_);
    default:
      return AppendAs<std::uint32_t>(ids, ids_);
  }
}

}  // namespace swarm::data
