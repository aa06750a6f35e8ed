#include <string_view>
#include <variant>

#include "worker/net/wire/encoder.h"

namespace swarm::net {
namespace {

using protocol::Message;

#define SWARM_FIELD(Name, field)                                  \
  pb::Name* FieldFor(const protocol::Name&, pb::Header* header) { \
    return header->mutable_##field();                             \
  }
SWARM_WIRE_MESSAGES(SWARM_FIELD)
#undef SWARM_FIELD

#define SWARM_NAME(Name, field) \
  constexpr std::string_view NameOf(const protocol::Name&) { return #Name; }
SWARM_WIRE_MESSAGES(SWARM_NAME)
#undef SWARM_NAME

}  // namespace

bool Encoder::WithinCap(std::size_t size, int max, const char* what) {
  if (size <= static_cast<std::size_t>(max)) return true;
  if (status_.ok()) {
    status_ = InvalidArgument("a list of " + std::to_string(size) + " " + what + "; at most " +
                              std::to_string(max));
  }
  return false;
}

Result<std::string> EncodeHeader(const Message& message) {
  pb::Header header;
  Encoder encoder;
  std::visit([&](const auto& content) { encoder.Put(content, FieldFor(content, &header)); },
             message);
  if (!encoder.status().ok()) return encoder.status().WithContext(MessageName(message));
  const std::size_t size = header.ByteSizeLong();
  if (size > kHeaderBytesMax) {
    return InvalidArgument(std::string(MessageName(message)) + " has a header of " +
                           std::to_string(size) + " bytes; at most " +
                           std::to_string(kHeaderBytesMax) + " can be sent");
  }
  return header.SerializeAsString();
}

std::string_view MessageName(const Message& message) {
  return std::visit([](const auto& content) { return NameOf(content); }, message);
}

}  // namespace swarm::net
