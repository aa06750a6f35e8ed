#include <google/protobuf/arena.h>

#include <array>
#include <cstddef>
#include <cstdint>
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
  // Small messages need no more than the stack, and a roster of a thousand few allocations.
  alignas(std::max_align_t) std::array<char, 2048> first_block;
  google::protobuf::ArenaOptions options;
  options.initial_block = first_block.data();
  options.initial_block_size = first_block.size();
  options.start_block_size = 32 << 10;
  options.max_block_size = 256 << 10;
  google::protobuf::Arena arena(options);
  pb::Header& header = *google::protobuf::Arena::CreateMessage<pb::Header>(&arena);
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
  std::string bytes(size, '\0');
  header.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(bytes.data()));
  return bytes;
}

std::string_view MessageName(const Message& message) {
  return std::visit([](const auto& content) { return NameOf(content); }, message);
}

}  // namespace swarm::net
