// Messages cut into frames, and put together again. One frame is one gRPC message, whose bytes are
// a swarmjob.v1.Frame:
//
//   09 <u64 sequence>      of the message on this stream, from 1
//   11 <u64 payload_bytes> of the whole message
//   19 <u64 offset>        of this piece in the payload
//   22 <varint n> <n bytes: Header in the first piece, none later>
//   2d <u32 crc>           CRC-32C of every byte above, then of the piece
//   32 <varint n> <n bytes: the piece>
//
// Numbers are little endian. All fields stand in this order, each once: stricter than protobuf, so
// that a frame is written and read without generated code and a payload without a copy of it.
// docs/wire_format.md has a worked example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "worker/net/endpoint.h"
#include "worker/net/wire/receive_buffers.h"
#include "worker/net/wire/wire.h"

namespace swarm::net {

/// The largest piece that any sender cuts, whatever its options are.
inline constexpr std::size_t kPieceBytesMax = 4u << 20;
/// Headers from this size on take room in ReceiveBuffers while they are decoded.
inline constexpr std::size_t kLargeHeaderBytes = 16u << 10;
/// The largest size of a frame without header and piece.
inline constexpr std::size_t kFrameOverheadMax = 64;

/// The largest parts of a message that one end of a stream accepts.
struct MessageCaps {
  std::size_t header_bytes = kHeaderBytesMax;
  std::size_t payload_bytes = 1u << 30;
};

/// A message on its way out: hands out its frames one after the other.
class FrameWriter {
 public:
  /// `header` as EncodeHeader gave it.
  FrameWriter(std::uint64_t sequence, std::string header, Bytes payload, std::size_t piece_bytes);

  struct Frame {
    std::string prefix;  ///< everything before the piece
    Bytes piece;         ///< shares the payload's memory
  };
  /// Requires !done(). Reads the piece once, for its checksum.
  Frame Next();
  bool done() const { return started_ && offset_ == payload_.size(); }
  /// Header and payload, as windows count them.
  std::size_t bytes() const { return bytes_; }

 private:
  const std::uint64_t sequence_;
  const std::size_t bytes_;
  const std::size_t piece_bytes_;
  std::string header_;
  Bytes payload_;
  std::size_t offset_ = 0;
  bool started_ = false;
};

/// The frames of one stream, in the order of arrival, as messages. Not thread-safe. Holds at most
/// one unfinished message. Total: any bytes give messages or an error, after which the stream is
/// useless.
class FrameReader {
 public:
  using Slice = std::span<const std::byte>;

  /// `buffers` bounds the unfinished messages of all streams that share it, and the large headers
  /// that are decoded at the same time: a hostile one needs tens of times its size for that.
  FrameReader(const MessageCaps& caps, std::shared_ptr<ReceiveBuffers> buffers);

  /// Takes one frame that lies in `slices`, kept alive by `owner`. Returns a message once it is
  /// complete. A payload that lies in one slice is not copied; any other is copied once. Errors:
  /// kDataLoss (malformed, wrong checksum, wrong order, above a cap), kResourceExhausted (no room
  /// for another unfinished message).
  Result<std::optional<Envelope>> Add(std::span<const Slice> slices,
                                      const std::shared_ptr<const void>& owner);

  /// Bytes of header and payload of the last message that Add returned.
  std::size_t bytes() const { return bytes_; }

 private:
  class Cursor;
  struct Prefix;

  Result<Prefix> ReadPrefix(Cursor* cursor) const;
  Status Begin(const Prefix& prefix);
  Status Continue(const Prefix& prefix) const;

  const MessageCaps caps_;
  const std::shared_ptr<ReceiveBuffers> buffers_;
  std::uint64_t sequence_ = 0;
  std::size_t bytes_ = 0;
  // Of the unfinished message:
  bool unfinished_ = false;
  protocol::Message message_;
  std::size_t payload_bytes_ = 0;
  std::size_t offset_ = 0;
  ReceiveBuffers::Buffer buffer_;
};

}  // namespace swarm::net
