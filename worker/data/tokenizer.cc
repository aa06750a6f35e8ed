#include "worker/data/tokenizer.h"

#include "worker/data/huggingface/file_names.h"

namespace swarm::data {

Result<std::vector<std::int32_t>> Tokenizer::Encode(std::string_view text) const {
  ASSIGN_OR_RETURN(auto ids, EncodeAll(std::span(&text, 1)));
  return std::move(ids.front());
}

Result<std::unique_ptr<Tokenizer>> MakeTokenizer(const TokenizerFiles& files) {
  switch (files.kind) {
    case api::TokenizerKind::kByte:
      return MakeByteTokenizer();
    case api::TokenizerKind::kSentencePiece:
      return MakeSentencePieceTokenizer(files.files.at(kTokenizerModel));
    case api::TokenizerKind::kHuggingFace:
      return MakeHuggingFaceTokenizer(files);
    case api::TokenizerKind::kAuto:
      break;
  }
  return InvalidArgument("there is no tokenizer");
}

Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const api::Tokenizer& tokenizer,
                                                 const api::Storage& storage) {
  ASSIGN_OR_RETURN(const TokenizerFiles files, ReadTokenizerFiles(tokenizer, storage));
  auto opened = MakeTokenizer(files);
  if (!opened.ok()) return opened.status().WithContext(tokenizer.uri);
  return opened;
}

}  // namespace swarm::data
