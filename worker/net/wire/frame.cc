#include "worker/net/wire/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/hash.h"
#include "worker/net/wire/wire.h"

namespace swarm::net {
namespace {

// Tags of swarmjob.v1.Frame: field number * 8 + wire type.
constexpr std::uint8_t kSequenceTag = 0x09;
constexpr std::uint8_t kPayloadBytesTag = 0x11;
constexpr std::uint8_t kOffsetTag = 0x19;
constexpr std::uint8_t kHeaderTag = 0x22;
constexpr std::uint8_t kCrcTag = 0x2d;
constexpr std::uint8_t kPayloadTag = 0x32;

/// Payloads from this size on keep the network's slice alive instead of being copied out of it.
constexpr std::size_t kShareFrom = 16u << 10;

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

template <typename Number>
void PutNumber(std::uint8_t tag, Number number, std::string* to) {
  to->push_back(static_cast<char>(tag));
  to->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void PutLength(std::uint8_t tag, std::size_t length, std::string* to) {
  to->push_back(static_cast<char>(tag));
  for (; length >= 0x80; length >>= 7) to->push_back(static_cast<char>(length | 0x80));
  to->push_back(static_cast<char>(length));
}

}  // namespace

FrameWriter::FrameWriter(std::uint64_t sequence, std::string header, Bytes payload,
                         std::size_t piece_bytes)
    : sequence_(sequence),
      bytes_(header.size() + payload.size()),
      piece_bytes_(std::clamp<std::size_t>(piece_bytes, 1, kPieceBytesMax)),
      header_(std::move(header)),
      payload_(std::move(payload)) {}

FrameWriter::Frame FrameWriter::Next() {
  Frame frame;
  frame.piece = payload_.Slice(offset_, std::min(piece_bytes_, payload_.size() - offset_));
  frame.prefix.reserve(header_.size() + kFrameOverheadMax);
  PutNumber<std::uint64_t>(kSequenceTag, sequence_, &frame.prefix);
  PutNumber<std::uint64_t>(kPayloadBytesTag, payload_.size(), &frame.prefix);
  PutNumber<std::uint64_t>(kOffsetTag, offset_, &frame.prefix);
  PutLength(kHeaderTag, started_ ? 0 : header_.size(), &frame.prefix);
  if (!started_) frame.prefix += header_;
  const std::uint32_t crc =
      Crc32c(frame.piece.span(), Crc32c(std::as_bytes(std::span(frame.prefix))));
  PutNumber<std::uint32_t>(kCrcTag, crc, &frame.prefix);
  PutLength(kPayloadTag, frame.piece.size(), &frame.prefix);
  started_ = true;
  offset_ += frame.piece.size();
  return frame;
}

/// Reads bytes that lie in several slices, and keeps their checksum.
class FrameReader::Cursor {
 public:
  explicit Cursor(std::span<const Slice> slices) : slices_(slices) {
    for (const Slice& slice : slices) left_ += slice.size();
  }

  std::size_t left() const { return left_; }
  std::uint32_t crc() const { return crc_; }
  /// Continues the checksum `crc` of the bytes read before.
  void set_crc(std::uint32_t crc) { crc_ = crc; }

  /// Copies `size` bytes to `to`. Requires size <= left().
  void Copy(std::size_t size, std::byte* to) {
    while (size > 0) {
      const Slice part = Take(size);
      std::memcpy(to, part.data(), part.size());
      // Of the copy, which is in the cache.
      crc_ = Crc32c({to, part.size()}, crc_);
      to += part.size();
      size -= part.size();
    }
  }

  /// The next `size` bytes, if they lie in one slice; else nothing (and it reads nothing).
  std::optional<Slice> View(std::size_t size) {
    SkipEmpty();
    if (slices_.empty() || slices_.front().size() - at_ < size) return std::nullopt;
    const Slice view = Take(size);
    crc_ = Crc32c(view, crc_);
    return view;
  }

  template <typename Number>
  bool ReadNumber(std::uint8_t tag, Number* number) {
    std::byte bytes[1 + sizeof(Number)];
    if (left_ < sizeof(bytes)) return false;
    Copy(sizeof(bytes), bytes);
    std::memcpy(number, bytes + 1, sizeof(Number));
    return bytes[0] == std::byte{tag};
  }

  /// Reads a tag and a varint of at most five bytes. False if the length exceeds the bytes left.
  bool ReadLength(std::uint8_t tag, std::size_t* length) {
    std::byte byte{};
    if (left_ == 0) return false;
    Copy(1, &byte);
    if (byte != std::byte{tag}) return false;
    *length = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      if (left_ == 0) return false;
      Copy(1, &byte);
      *length |= (std::to_integer<std::size_t>(byte) & 0x7f) << shift;
      if ((byte & std::byte{0x80}) == std::byte{0}) return *length <= left_;
    }
    return false;
  }

 private:
  void SkipEmpty() {
    while (!slices_.empty() && at_ == slices_.front().size()) {
      slices_ = slices_.subspan(1);
      at_ = 0;
    }
  }

  /// Up to `size` bytes that lie together. Requires left() > 0.
  Slice Take(std::size_t size) {
    SkipEmpty();
    const Slice part =
        slices_.front().subspan(at_).first(std::min(size, slices_.front().size() - at_));
    at_ += part.size();
    left_ -= part.size();
    return part;
  }

  std::span<const Slice> slices_;
  std::size_t at_ = 0;  // in the first slice
  std::size_t left_ = 0;
  std::uint32_t crc_ = 0;
};

/// The fields before the piece.
struct FrameReader::Prefix {
  std::uint64_t sequence = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t offset = 0;
  std::string header;
  std::uint32_t crc = 0;  // as the sender computed it
  std::size_t piece_bytes = 0;
};

FrameReader::FrameReader(const MessageCaps& caps, std::shared_ptr<ReceiveBuffers> buffers)
    : caps_(caps), buffers_(std::move(buffers)) {}

Result<FrameReader::Prefix> FrameReader::ReadPrefix(Cursor* cursor) const {
  Prefix prefix;
  std::size_t header_bytes = 0;
  if (!cursor->ReadNumber(kSequenceTag, &prefix.sequence) ||
      !cursor->ReadNumber(kPayloadBytesTag, &prefix.payload_bytes) ||
      !cursor->ReadNumber(kOffsetTag, &prefix.offset) ||
      !cursor->ReadLength(kHeaderTag, &header_bytes)) {
    return DataLoss("not a frame");
  }
  if (header_bytes > caps_.header_bytes) {
    return DataLoss("a header of " + std::to_string(header_bytes) + " bytes; at most " +
                    std::to_string(caps_.header_bytes));
  }
  prefix.header.resize(header_bytes);
  cursor->Copy(header_bytes, reinterpret_cast<std::byte*>(prefix.header.data()));
  const std::uint32_t crc_so_far = cursor->crc();
  if (!cursor->ReadNumber(kCrcTag, &prefix.crc) ||
      !cursor->ReadLength(kPayloadTag, &prefix.piece_bytes) ||
      prefix.piece_bytes != cursor->left()) {
    return DataLoss("not a frame");
  }
  cursor->set_crc(crc_so_far);
  return prefix;
}

Status FrameReader::Begin(const Prefix& prefix) {
  if (prefix.sequence != sequence_ + 1 || prefix.offset != 0) {
    return DataLoss("message " + std::to_string(prefix.sequence) + " after message " +
                    std::to_string(sequence_));
  }
  if (prefix.payload_bytes > caps_.payload_bytes) {
    return DataLoss("a payload of " + std::to_string(prefix.payload_bytes) + " bytes; at most " +
                    std::to_string(caps_.payload_bytes));
  }
  ReceiveBuffers::Room decoding;
  if (prefix.header.size() >= kLargeHeaderBytes) {
    ASSIGN_OR_RETURN(decoding, buffers_->TakeRoom(prefix.header.size()));
  }
  ASSIGN_OR_RETURN(message_, DecodeHeader(std::as_bytes(std::span(prefix.header))));
  bytes_ = prefix.header.size() + prefix.payload_bytes;
  payload_bytes_ = prefix.payload_bytes;
  offset_ = 0;
  sequence_ = prefix.sequence;
  unfinished_ = true;
  return Status();
}

Status FrameReader::Continue(const Prefix& prefix) const {
  if (prefix.sequence != sequence_ || prefix.offset != offset_ ||
      prefix.payload_bytes != payload_bytes_ || !prefix.header.empty() || prefix.piece_bytes == 0) {
    return DataLoss("a piece of message " + std::to_string(prefix.sequence) + " at " +
                    std::to_string(prefix.offset) + ", but message " + std::to_string(sequence_) +
                    " has come up to " + std::to_string(offset_));
  }
  return Status();
}

Result<std::optional<Envelope>> FrameReader::Add(std::span<const Slice> slices,
                                                 const std::shared_ptr<const void>& owner) {
  Cursor cursor(slices);
  ASSIGN_OR_RETURN(const Prefix prefix, ReadPrefix(&cursor));
  RETURN_IF_ERROR(unfinished_ ? Continue(prefix) : Begin(prefix));
  if (prefix.piece_bytes > payload_bytes_ - offset_ ||
      (prefix.piece_bytes == 0 && payload_bytes_ > 0)) {
    return DataLoss("a piece of " + std::to_string(prefix.piece_bytes) + " bytes; " +
                    std::to_string(payload_bytes_ - offset_) + " are missing");
  }
  const bool whole = prefix.piece_bytes == payload_bytes_;
  std::optional<Slice> shared;
  if (whole && payload_bytes_ >= kShareFrom) shared = cursor.View(payload_bytes_);
  if (!shared) {
    if (offset_ == 0) {
      ASSIGN_OR_RETURN(buffer_, buffers_->Take(payload_bytes_));
    }
    cursor.Copy(prefix.piece_bytes, buffer_.data() + offset_);
  }
  if (cursor.crc() != prefix.crc) {
    return DataLoss("wrong checksum in message " + std::to_string(sequence_) + " at " +
                    std::to_string(offset_));
  }
  offset_ += prefix.piece_bytes;
  if (offset_ < payload_bytes_) return std::optional<Envelope>();
  unfinished_ = false;
  Bytes payload =
      shared ? Bytes::Wrap(shared->data(), shared->size(), owner) : std::move(buffer_).Finish();
  return std::optional<Envelope>({std::move(message_), std::move(payload)});
}

}  // namespace swarm::net
