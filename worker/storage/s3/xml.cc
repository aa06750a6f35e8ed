#include "worker/storage/s3/xml.h"

#include <array>
#include <charconv>
#include <utility>

namespace swarm::storage::s3 {
namespace {

constexpr std::array<std::pair<std::string_view, char>, 5> kNamed = {
    {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};

// The character that an entity (without & and ;) stands for, or 0.
char Entity(std::string_view name) {
  for (const auto& [known, character] : kNamed) {
    if (name == known) return character;
  }
  if (!name.starts_with('#')) return 0;
  name.remove_prefix(1);
  const int base = name.starts_with('x') ? 16 : 10;
  if (base == 16) name.remove_prefix(1);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value, base);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole && value < 128 ? static_cast<char>(value) : 0;
}

}  // namespace

std::vector<std::string_view> FindElements(std::string_view xml, std::string_view tag) {
  const std::string open = "<" + std::string(tag) + ">";
  const std::string close = "</" + std::string(tag) + ">";
  std::vector<std::string_view> contents;
  for (std::size_t at = xml.find(open); at != xml.npos; at = xml.find(open, at)) {
    at += open.size();
    const std::size_t end = xml.find(close, at);
    if (end == xml.npos) break;
    contents.push_back(xml.substr(at, end - at));
    at = end + close.size();
  }
  return contents;
}

std::string FindText(std::string_view xml, std::string_view tag) {
  const auto found = FindElements(xml, tag);
  return found.empty() ? "" : UnescapeXml(found.front());
}

std::string UnescapeXml(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const std::size_t semicolon = text[0] == '&' ? text.find(';') : text.npos;
    const char character = semicolon == text.npos ? 0 : Entity(text.substr(1, semicolon - 1));
    plain.push_back(character != 0 ? character : text[0]);
    text.remove_prefix(character != 0 ? semicolon + 1 : 1);
  }
  return plain;
}

std::string EscapeXml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    bool special = false;
    for (const auto& [name, character] : kNamed) {
      if (c != character) continue;
      escaped += "&" + std::string(name) + ";";
      special = true;
    }
    if (!special) escaped.push_back(c);
  }
  return escaped;
}

}  // namespace swarm::storage::s3
