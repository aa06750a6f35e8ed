#include "worker/data/tokenizer_files.h"

#include "worker/data/huggingface/file_names.h"
#include "worker/data/huggingface/special_tokens.h"

namespace swarm::data {
namespace {

using api::TokenizerKind;

Result<bool> Exists(storage::Storage& storage, const std::string& name) {
  const Status status = storage.Size(name).status();
  if (status.code() == StatusCode::kNotFound) return false;
  if (!status.ok()) return status;
  return true;
}

Result<TokenizerFiles> ReadHuggingFace(const std::string& uri, const api::Storage& options) {
  storage::SplitUri split{uri, kTokenizerJson};
  if (uri.ends_with(".json")) split = storage::SplitLastName(uri);
  ASSIGN_OR_RETURN(const auto folder, storage::Storage::Open(split.folder, options));
  TokenizerFiles read{.kind = TokenizerKind::kHuggingFace, .files = {}, .uri = uri};
  ASSIGN_OR_RETURN(read.files[kTokenizerJson], folder->Read(split.name));
  for (const char* name : kBesideTokenizerJson) {
    Result<Bytes> content = folder->Read(name);
    if (content.status().code() == StatusCode::kNotFound) continue;
    if (!content.ok()) return content.status();
    read.files[name] = *std::move(content);
  }
  return read;
}

}  // namespace

const Bytes* TokenizerFiles::Find(const std::string& name) const {
  const auto at = files.find(name);
  return at == files.end() ? nullptr : &at->second;
}

Result<api::Tokenizer> FindTokenizer(const std::string& folder_uri, const api::Storage& storage) {
  ASSIGN_OR_RETURN(const auto folder, storage::Storage::Open(folder_uri, storage));
  ASSIGN_OR_RETURN(const bool json, Exists(*folder, kTokenizerJson));
  if (json) return api::Tokenizer{TokenizerKind::kHuggingFace, folder_uri};
  ASSIGN_OR_RETURN(const bool model, Exists(*folder, kTokenizerModel));
  if (!model) return api::Tokenizer{};
  return api::Tokenizer{TokenizerKind::kSentencePiece, folder_uri + "/" + kTokenizerModel};
}

Result<TokenizerFiles> ReadTokenizerFiles(const api::Tokenizer& tokenizer,
                                          const api::Storage& storage) {
  const bool needs_uri = tokenizer.kind == TokenizerKind::kSentencePiece ||
                         tokenizer.kind == TokenizerKind::kHuggingFace;
  if (!needs_uri) return TokenizerFiles{.kind = tokenizer.kind};
  if (tokenizer.uri.empty()) return InvalidArgument("the tokenizer needs a uri");
  if (tokenizer.kind == TokenizerKind::kHuggingFace) return ReadHuggingFace(tokenizer.uri, storage);
  const storage::SplitUri split = storage::SplitLastName(tokenizer.uri);
  ASSIGN_OR_RETURN(const auto folder, storage::Storage::Open(split.folder, storage));
  TokenizerFiles read{.kind = tokenizer.kind, .files = {}, .uri = tokenizer.uri};
  ASSIGN_OR_RETURN(read.files[kTokenizerModel], folder->Read(split.name));
  return read;
}

TokenizerFiles ForTransformers(TokenizerFiles files) {
  files.files.erase(kGenerationConfig);
  if (files.kind != TokenizerKind::kHuggingFace) return files;
  Bytes& config = files.files[kTokenizerConfig];
  if (config.empty()) {
    config = Bytes::Copy("{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}\n");
  }
  Bytes& map = files.files[kSpecialTokensMap];
  if (map.empty()) map = Bytes::Copy(SpecialTokensMap(config.text()));
  return files;
}

Status WriteTokenizerFiles(const TokenizerFiles& files, storage::Storage& storage,
                           const std::string& prefix) {
  for (const auto& [name, content] : files.files) {
    RETURN_IF_ERROR(storage.Write(prefix + name, content));
  }
  return Status();
}

}  // namespace swarm::data
