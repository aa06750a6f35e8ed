#include "ctl/report/html_text.h"

namespace swarm::ctl {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

/// The bytes of the UTF-8 character at the beginning of `text`; 0: it is none.
std::size_t CharacterSize(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return size;
}

}  // namespace

std::string Escape(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t size = CharacterSize(text);
    const char c = text[0];
    const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
    if (size == 0 || control || c == 0x7f) {
      escaped += kReplacement;
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else if (c == '\'') {
      escaped += "&#39;";
    } else {
      escaped += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return escaped;
}

}  // namespace swarm::ctl
