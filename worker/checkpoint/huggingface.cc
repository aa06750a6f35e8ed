#include "worker/checkpoint/huggingface.h"

#include "worker/checkpoint/json.h"

namespace swarm::checkpoint {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kGenerationConfig = "generation_config.json";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Transformers would derive this from config.json; with the file, it need not.
Json GenerationConfig(const Json& config) {
  Json generation = {{"_from_model_config", true}};
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (config.contains(key) && !config[key].is_null()) generation[key] = config[key];
  }
  return generation;
}

Bytes JsonFile(const Json& json) { return Bytes::Copy(json.dump(2) + "\n"); }

}  // namespace

Result<std::unique_ptr<HuggingFaceFolder>> HuggingFaceFolder::Open(const std::string& uri,
                                                                   const api::Storage& options) {
  ASSIGN_OR_RETURN(auto storage, storage::Storage::Open(uri, options));
  std::unique_ptr<HuggingFaceFolder> folder(new HuggingFaceFolder(std::move(storage)));
  RETURN_IF_ERROR(folder->ReadConfig());
  RETURN_IF_ERROR(folder->ReadIndex());
  return folder;
}

Status HuggingFaceFolder::ReadConfig() {
  const auto config = folder_->Read(kConfig);
  if (!config.ok()) return config.status().WithContext("a Hugging Face folder needs config.json");
  config_json_ = config->text();
  return ParseJsonObject(config_json_).status().WithContext(folder_->Describe(kConfig));
}

Status HuggingFaceFolder::ReadIndex() {
  const Status one_file = folder_->Size(kModel).status();
  if (one_file.ok() || one_file.code() != StatusCode::kNotFound) return one_file;
  const auto text = folder_->Read(kIndex);
  if (text.status().code() == StatusCode::kNotFound) {
    return NotFound(folder_->Describe(kModel) + " is not there, nor its index; other formats of" +
                    " weights must be converted to safetensors first");
  }
  if (!text.ok()) return text.status();
  const auto parsed = ParseJsonObject(text->text());
  if (!parsed.ok()) return parsed.status().WithContext(folder_->Describe(kIndex));
  const Json& index = *parsed;
  if (!index.contains("weight_map") || !index["weight_map"].is_object()) {
    return DataLoss(folder_->Describe(kIndex) + " has no weight_map");
  }
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string()) return DataLoss(folder_->Describe(kIndex) + ": no file for " + tensor);
    shard_of_[tensor] = shard.get<std::string>();
  }
  return {};
}

Result<const SafetensorsFile*> HuggingFaceFolder::OpenShard(const std::string& file_name) {
  const auto at = shards_.find(file_name);
  if (at != shards_.end()) return &at->second;
  ASSIGN_OR_RETURN(const Bytes content, folder_->Map(file_name));
  auto shard = ReadSafetensors(content);
  if (!shard.ok()) return shard.status().WithContext(folder_->Describe(file_name));
  return &shards_.emplace(file_name, std::move(shard).value()).first->second;
}

Result<NamedTensor> HuggingFaceFolder::LookupRaw(const std::string& name) {
  std::string file_name = kModel;
  if (!shard_of_.empty()) {
    const auto at = shard_of_.find(name);
    if (at == shard_of_.end())
      return NotFound("no tensor " + name + " in " + folder_->Describe(kIndex));
    file_name = at->second;
  }
  const auto shard = OpenShard(file_name);
  if (!shard.ok()) {
    // The index names a missing file: that is not the same as an absent tensor.
    if (shard.status().code() != StatusCode::kNotFound) return shard.status();
    return DataLoss("a file of the model is missing: " + shard.status().message());
  }
  auto tensor = (*shard)->Lookup(name);
  if (!tensor.ok()) return tensor.status().WithContext(folder_->Describe(file_name));
  return tensor;
}

Result<NamedTensor> HuggingFaceFolder::Lookup(const std::string& name) {
  ASSIGN_OR_RETURN(const NamedTensor tensor, LookupRaw(name));
  return ConvertToFloat32(tensor);
}

Status WriteHuggingFaceFolder(const std::string& uri, const std::string& config_json,
                              std::span<const NamedTensor> tensors, const api::Storage& options) {
  const auto config = ParseJsonObject(config_json);
  if (!config.ok()) return InvalidArgument("the model's config: " + config.status().message());
  ASSIGN_OR_RETURN(auto folder, storage::Storage::Open(uri, options));
  ASSIGN_OR_RETURN(const std::vector<Bytes> model, EncodeSafetensors(tensors, {{"format", "pt"}}));
  RETURN_IF_ERROR(folder->Write(kModel, model));
  RETURN_IF_ERROR(folder->Write(kGenerationConfig, JsonFile(GenerationConfig(*config))));
  return folder->Write(kConfig, JsonFile(*config));
}

}  // namespace swarm::checkpoint
