// The frames of a peer's stream. Half of the inputs are used as they are. The others are frames
// with drawn fields and a correct checksum, so that the code behind the checksum is reached.
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "tests/fuzz/input.h"
#include "worker/net/wire/frame.h"
#include "worker/net/wire/wire.h"

namespace swarm {
namespace {

constexpr std::size_t kPayloadBytesMax = 1 << 16;
constexpr int kFramesMax = 64;

void AppendNumber(std::uint64_t value, int bytes, std::string* to) {
  for (int i = 0; i < bytes; ++i) to->push_back(static_cast<char>(value >> (8 * i)));
}

void AppendLength(std::size_t length, std::string* to) {
  for (; length >= 0x80; length >>= 7) to->push_back(static_cast<char>(length | 0x80));
  to->push_back(static_cast<char>(length));
}

/// Small numbers are the likely ones: others are refused at once.
std::uint64_t DrawNumber(fuzz::Input* input) {
  const std::uint8_t choice = input->Byte();
  return choice < 240 ? choice % 16 : input->Number();
}

/// A frame by the layout in worker/net/wire/frame.h.
std::string DrawFrame(fuzz::Input* input) {
  std::string frame;
  frame.push_back(0x09);
  AppendNumber(DrawNumber(input), 8, &frame);
  frame.push_back(0x11);
  AppendNumber(DrawNumber(input), 8, &frame);
  frame.push_back(0x19);
  AppendNumber(DrawNumber(input), 8, &frame);
  frame.push_back(0x22);
  std::string header;
  if (input->Byte() % 2 == 0) header = *net::EncodeHeader(protocol::ReduceChunk{.offset = 1});
  if (input->Byte() % 8 == 0) header = input->Take(input->Byte());
  AppendLength(header.size(), &frame);
  frame += header;
  const std::string_view piece = input->Take(input->Byte() % 16);
  std::uint32_t crc = Crc32c(std::as_bytes(std::span(frame)));
  crc = Crc32c(std::as_bytes(std::span(piece)), crc);
  frame.push_back(0x2d);
  AppendNumber(crc, 4, &frame);
  frame.push_back(0x32);
  AppendLength(piece.size(), &frame);
  return frame.append(piece);
}

}  // namespace
}  // namespace swarm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace swarm;
  fuzz::Input input(data, size);
  const auto buffers = std::make_shared<net::ReceiveBuffers>(kPayloadBytesMax, kPayloadBytesMax);
  net::FrameReader reader({.payload_bytes = kPayloadBytesMax}, buffers);
  const bool drawn = input.Byte() % 2 == 1;
  const std::size_t slice_bytes = 1 + input.Byte() % 64;
  for (int i = 0; i < kFramesMax && !input.rest().empty(); ++i) {
    const auto frame = std::make_shared<const std::string>(
        drawn ? DrawFrame(&input) : std::string(input.Take(1 + input.Byte())));
    std::vector<net::FrameReader::Slice> slices;
    for (std::size_t at = 0; at < frame->size(); at += slice_bytes) {
      const std::size_t bytes = std::min(slice_bytes, frame->size() - at);
      slices.push_back(std::as_bytes(std::span(*frame)).subspan(at, bytes));
    }
    const auto message = reader.Add(slices, frame);
    if (!message.ok()) break;
    if (!message->has_value()) continue;
    fuzz::Require((*message)->payload.size() <= kPayloadBytesMax, "no payload is above the cap");
    fuzz::Require(reader.bytes() >= (*message)->payload.size(), "the window counts the payload");
  }
  return 0;
}
