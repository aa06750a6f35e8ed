// Messages of protobuf as gRPC's bytes. Private to this folder.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <vector>

namespace swarm::enrol {

/// No message of the service is larger.
inline constexpr int kMessageBytesMax = 64 << 10;

inline grpc::ByteBuffer ToBytes(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

/// False: the bytes are no such message.
inline bool FromBytes(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message) {
  std::vector<grpc::Slice> slices;
  if (!bytes.Valid() || !bytes.Dump(&slices).ok()) return false;
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return message->ParseFromString(text);
}

}  // namespace swarm::enrol
