// The tokenizer of SentencePiece: a module of its own, opened by sentencepiece_module.cc.
#include <sentencepiece_processor.h>

#include "worker/data/sentencepiece/sentencepiece_module.h"

namespace swarm::data {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  Status Load(const Bytes& model) {
    const auto status = processor_.LoadFromSerializedProto({model.text().data(), model.size()});
    if (!status.ok()) return DataLoss("no SentencePiece model: " + status.ToString());
    return {};
  }

  Result<std::vector<std::vector<std::int32_t>>> EncodeAll(
      std::span<const std::string_view> texts) const override {
    std::vector<std::vector<std::int32_t>> all(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto status = processor_.Encode({texts[i].data(), texts[i].size()}, &all[i]);
      if (!status.ok()) return InvalidArgument("SentencePiece cannot encode: " + status.ToString());
    }
    return all;
  }

  Result<std::string> Decode(std::span<const std::int32_t> ids) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= 0 && ids[i] < vocab_size()) continue;
      return InvalidArgument("id " + std::to_string(ids[i]) + " at position " + std::to_string(i) +
                             ", the tokenizer has " + std::to_string(vocab_size()) + " ids");
    }
    std::string text;
    const auto status = processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
    if (!status.ok()) return InvalidArgument("SentencePiece cannot decode: " + status.ToString());
    return text;
  }

  std::int64_t vocab_size() const override { return processor_.GetPieceSize(); }

  SpecialTokens special() const override {
    const auto known = [](int id) { return id < 0 ? std::optional<std::int32_t>() : id; };
    return {known(processor_.bos_id()), known(processor_.eos_id())};
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

}  // namespace swarm::data

extern "C" void SwarmMakeSentencePieceTokenizer(
    const swarm::Bytes& model, swarm::Result<std::unique_ptr<swarm::data::Tokenizer>>* result) {
  auto tokenizer = std::make_unique<swarm::data::SentencePieceTokenizer>();
  const swarm::Status status = tokenizer->Load(model);
  if (status.ok()) {
    *result = std::unique_ptr<swarm::data::Tokenizer>(std::move(tokenizer));
  } else {
    *result = status;
  }
}
