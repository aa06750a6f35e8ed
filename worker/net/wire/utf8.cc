#include "worker/net/wire/utf8.h"

#include <cstddef>

namespace swarm::net {
namespace {

unsigned ByteAt(std::string_view text, std::size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
}

/// The bytes of the character that begins at `i`, or 0 if none begins there (Unicode, table 3-7).
std::size_t CharacterBytes(std::string_view text, std::size_t i) {
  const unsigned lead = ByteAt(text, i);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned low = 0x80, high = 0xbf;  // of the second byte
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (ByteAt(text, i + 1) < low || ByteAt(text, i + 1) > high) return 0;
  for (std::size_t k = 2; k < length; ++k) {
    if ((ByteAt(text, i + k) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = CharacterBytes(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string ToUtf8(const std::string& text) {
  if (IsUtf8(text)) return text;
  std::string plain = text;
  for (char& c : plain) {
    if (static_cast<unsigned char>(c) > 0x7f) c = '?';
  }
  return plain;
}

}  // namespace swarm::net
