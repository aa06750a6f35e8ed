#include "worker/enrol/token.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "base/base64.h"
#include "base/hash.h"

namespace swarm::enrol {
namespace {

/// Names the form, so that another one can follow.
constexpr std::string_view kMark = "sj1_";
constexpr std::size_t kTokenBytesMax = 1024;
constexpr std::size_t kChecksumDigits = 8;

std::string ChecksumOf(const std::string& text) {
  const std::uint32_t crc = Crc32c(std::as_bytes(std::span(text)));
  std::array<char, kChecksumDigits> digits;
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), crc, 16).ptr;
  const std::string short_form(digits.data(), static_cast<std::size_t>(end - digits.data()));
  return std::string(kChecksumDigits - short_form.size(), '0') + short_form;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

}  // namespace

std::string ToText(const JoinToken& token) {
  const std::string fields =
      token.address + "\n" + token.fingerprint + "\n" + token.id + "\n" + token.secret;
  return std::string(kMark) + EncodeBase64(fields) + "_" + ChecksumOf(fields);
}

Result<JoinToken> ParseJoinToken(const std::string& text) {
  const Status no_token = InvalidArgument(
      "this is no join token, or not the whole of one: copy the word that follows `swarmctl join`"
      " in the output of `swarmctl run --listen` or `swarmctl token create`");
  const std::size_t end = text.rfind('_');
  if (text.size() > kTokenBytesMax || !text.starts_with(kMark) || end < kMark.size()) {
    return no_token;
  }
  const std::optional<std::string> fields =
      DecodeBase64(std::string_view(text).substr(kMark.size(), end - kMark.size()));
  if (!fields || text.substr(end + 1) != ChecksumOf(*fields)) return no_token;
  std::vector<std::string> lines = LinesOf(*fields);
  if (lines.size() != 4 || lines[0].find(':') == std::string::npos) return no_token;
  return JoinToken{std::move(lines[0]), std::move(lines[1]), std::move(lines[2]),
                   std::move(lines[3])};
}

}  // namespace swarm::enrol
