// Texts of bytes as gRPC's buffers. For the rooms that know gRPC.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <vector>

namespace swarm::enrol {

/// No question at home and no answer is larger.
inline constexpr int kMessageBytesMax = 64 << 10;

/// What gRPC has received, which has the bound of its channel or server.
inline std::string TextOf(const grpc::ByteBuffer& bytes) {
  std::string text;
  std::vector<grpc::Slice> slices;
  if (!bytes.Valid() || !bytes.Dump(&slices).ok()) return text;
  text.reserve(bytes.Length());
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

inline grpc::ByteBuffer BytesOf(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace swarm::enrol
