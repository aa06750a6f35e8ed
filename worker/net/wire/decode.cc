#include "worker/net/wire/decoder.h"

namespace swarm::net {
namespace {

using protocol::Message;

template <typename To, typename From>
Result<Message> Decode(const From& from) {
  Decoder decoder;
  To to;
  decoder.Get(from, &to);
  if (!decoder.status().ok()) return decoder.status();
  return Message(std::move(to));
}

Result<Message> Decode(const pb::Header& header) {
  switch (header.message_case()) {
#define SWARM_CASE(Name, field) \
  case pb::Header::k##Name:     \
    return Decode<protocol::Name>(header.field());
    SWARM_WIRE_MESSAGES(SWARM_CASE)
#undef SWARM_CASE
    case pb::Header::MESSAGE_NOT_SET:
      break;
  }
  return DataLoss("the header holds none of the messages this program knows");
}

}  // namespace

void Decoder::Refuse(std::string why) {
  if (status_.ok()) status_ = DataLoss(std::move(why));
}

bool Decoder::WithinCap(int size, int max, const char* what) {
  if (size <= max) return true;
  Refuse("a list of " + std::to_string(size) + " " + what + "; at most " + std::to_string(max));
  return false;
}

Result<Message> DecodeHeader(std::span<const std::byte> bytes) {
  if (bytes.size() > kHeaderBytesMax) {
    return DataLoss("a header of " + std::to_string(bytes.size()) + " bytes; at most " +
                    std::to_string(kHeaderBytesMax));
  }
  pb::Header header;
  if (!header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss("the header is not a swarmjob.v1.Header");
  }
  return Decode(header);
}

}  // namespace swarm::net
