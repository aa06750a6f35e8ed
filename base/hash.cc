#include "base/hash.h"

#include <isa-l/crc.h>
#include <xxhash.h>

#include <cstdio>
#include <memory>

#include "base/digest_stream.h"

namespace swarm {

std::uint32_t Crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  // ISA-L counts in int and neither starts from nor ends with the inverted value of the standard.
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  crc = ~crc;
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));
    crc = crc32_iscsi(data, static_cast<int>(piece.size()), crc);
  }
  return ~crc;
}

std::string Digest::Hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

Digest ComputeDigest(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

Digest ComputeDigest(std::span<const Bytes> pieces) {
  DigestStream stream;
  for (const Bytes& piece : pieces) stream.Add(piece.span());
  return stream.Finish();
}

DigestStream::DigestStream()
    : state_(XXH3_createState(), [](XXH3_state_t* state) { XXH3_freeState(state); }) {
  XXH3_128bits_reset(state_.get());
}

void DigestStream::Add(std::span<const std::byte> piece) {
  XXH3_128bits_update(state_.get(), piece.data(), piece.size());
}

Digest DigestStream::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return {hash.high64, hash.low64};
}

}  // namespace swarm
