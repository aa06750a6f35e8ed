#include "worker/data/tokenizer.h"

#include "worker/storage/storage.h"

namespace swarm::data {

Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const api::Tokenizer& tokenizer,
                                                 const api::Storage& storage) {
  if (tokenizer.kind == api::TokenizerKind::kByte && tokenizer.uri.empty()) {
    return MakeByteTokenizer();
  }
  if (tokenizer.uri.empty()) return InvalidArgument("a SentencePiece tokenizer needs a uri");
  const storage::SplitUri split = storage::SplitLastName(tokenizer.uri);
  ASSIGN_OR_RETURN(const auto folder, storage::Storage::Open(split.folder, storage));
  ASSIGN_OR_RETURN(const Bytes model, folder->Read(split.name));
  auto opened = MakeSentencePieceTokenizer(model);
  if (!opened.ok()) return opened.status().WithContext(tokenizer.uri);
  return opened;
}

}  // namespace swarm::data
