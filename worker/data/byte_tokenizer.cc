#include "worker/data/tokenizer.h"

namespace swarm::data {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<std::int32_t> Encode(std::string_view text) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    return {bytes, bytes + text.size()};
  }

  Result<std::string> Decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] > 255) {
        return InvalidArgument("id " + std::to_string(ids[i]) + " at position " +
                               std::to_string(i) + " is no byte");
      }
      text.push_back(static_cast<char>(ids[i]));
    }
    return text;
  }

  std::int64_t vocab_size() const override { return 256; }
  bool is_bytes() const override { return true; }
};

}  // namespace

std::unique_ptr<Tokenizer> MakeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace swarm::data
