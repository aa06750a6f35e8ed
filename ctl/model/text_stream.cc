#include "ctl/model/text_stream.h"

#include <algorithm>

#include "worker/data/utf8.h"

namespace swarm::ctl {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr int kUnfinishedMax = 3;                          // bytes of a character that lacks one

std::size_t SequenceLength(unsigned char lead) {
  return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
}

// The number of bytes at the end that may begin an incomplete character.
std::size_t UnfinishedBytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(kUnfinishedMax, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) != 0x80) return SequenceLength(byte) > back ? back : 0;
  }
  return 0;
}

std::string Repair(std::string_view text) {
  std::string repaired;
  while (const auto invalid = data::FindInvalidUtf8(text)) {
    repaired += text.substr(0, *invalid);
    repaired += kReplacement;
    text.remove_prefix(*invalid + 1);
  }
  return repaired += text;
}

}  // namespace

std::string TextStream::Advance(std::string_view text, bool last) {
  if (text.size() <= printed_) return "";
  std::string_view ready = text.substr(printed_);
  if (!last) {
    for (int i = 0; i < kUnfinishedMax && ready.ends_with(kReplacement); ++i) {
      ready.remove_suffix(kReplacement.size());
    }
    ready.remove_suffix(UnfinishedBytes(ready));
  }
  printed_ += ready.size();
  return Repair(ready);
}

}  // namespace swarm::ctl
