#include "worker/data/tokenizer.h"

namespace swarm::data {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  Result<std::vector<std::vector<std::int32_t>>> EncodeAll(
      std::span<const std::string_view> texts) const override {
    std::vector<std::vector<std::int32_t>> all;
    for (const std::string_view text : texts) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
      all.emplace_back(bytes, bytes + text.size());
    }
    return all;
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
