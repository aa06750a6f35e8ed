// A peer's header: any bytes are a message or an error, and what was read is written the same.
#include "tests/fuzz/input.h"
#include "worker/net/wire/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace swarm;
  const auto message = net::DecodeHeader(std::as_bytes(std::span(data, size)));
  if (!message.ok()) {
    fuzz::Require(message.status().code() == StatusCode::kDataLoss, "a bad header is kDataLoss");
    return 0;
  }
  const auto bytes = net::EncodeHeader(*message);
  // Text that is not UTF-8 never comes out of protobuf, and the caps are those of the encoder.
  fuzz::Require(bytes.ok(), "what was read can be written");
  const auto again = net::DecodeHeader(std::as_bytes(std::span(*bytes)));
  fuzz::Require(again.ok(), "what was written can be read");
  fuzz::Require(*net::EncodeHeader(*again) == *bytes, "reading again changes nothing");
  return 0;
}
