#include "worker/data/sentencepiece/sentencepiece_module.h"

#include "base/module.h"

namespace swarm::data {

Result<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(const Bytes& model) {
  static const auto entry =
      FindInModule("libswarm_sentencepiece.so", "SwarmMakeSentencePieceTokenizer");
  if (!entry.ok()) return entry.status();
  Result<std::unique_ptr<Tokenizer>> result = Internal("not made");
  reinterpret_cast<decltype(&SwarmMakeSentencePieceTokenizer)>(*entry)(model, &result);
  return result;
}

}  // namespace swarm::data
