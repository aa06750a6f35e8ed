#include "worker/checkpoint/huggingface.h"

#include <cstdio>

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

std::uint64_t BytesIn(const NamedTensor& tensor, ElementType type) {
  return tensor.data.size() / ElementBytes(tensor.type) * ElementBytes(type);
}

// Cuts the tensors, in their order, into shards.
std::vector<std::span<const NamedTensor>> CutIntoShards(std::span<const NamedTensor> tensors,
                                                        const WeightsFormat& format) {
  std::vector<std::span<const NamedTensor>> shards;
  std::uint64_t bytes = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t more = BytesIn(tensors[i], format.type);
    if (i > begin && bytes + more > format.shard_bytes) {
      shards.push_back(tensors.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += more;
  }
  shards.push_back(tensors.subspan(begin));
  return shards;
}

std::string ShardName(std::size_t index, std::size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

// Rounds one shard at a time, so that no second copy of all weights is made.
Status WriteShard(storage::Storage& folder, const std::string& name,
                  std::span<const NamedTensor> tensors, ElementType type) {
  std::vector<NamedTensor> rounded;
  if (type == ElementType::kBF16) {
    for (const NamedTensor& tensor : tensors) rounded.push_back(RoundToBFloat16(tensor));
    tensors = rounded;
  }
  ASSIGN_OR_RETURN(const std::vector<Bytes> file, EncodeSafetensors(tensors, {{"format", "pt"}}));
  return folder.Write(name, file);
}

Status WriteWeights(storage::Storage& folder, std::span<const NamedTensor> tensors,
                    const WeightsFormat& format) {
  const auto shards = CutIntoShards(tensors, format);
  if (shards.size() == 1) return WriteShard(folder, kModel, tensors, format.type);
  Json map = Json::object();
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = ShardName(i, shards.size());
    RETURN_IF_ERROR(WriteShard(folder, name, shards[i], format.type));
    for (const NamedTensor& tensor : shards[i]) {
      map[tensor.name] = name;
      bytes += BytesIn(tensor, format.type);
    }
  }
  const Json index{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
  return folder.Write(kIndex, JsonFile(index));
}

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
                              std::span<const NamedTensor> tensors, const WeightsFormat& format,
                              const api::Storage& options) {
  auto parsed = ParseJsonObject(config_json);
  if (!parsed.ok()) return InvalidArgument("the model's config: " + parsed.status().message());
  Json config = *std::move(parsed);
  config["torch_dtype"] = format.type == ElementType::kBF16 ? "bfloat16" : "float32";
  ASSIGN_OR_RETURN(auto folder, storage::Storage::Open(uri, options));
  RETURN_IF_ERROR(WriteWeights(*folder, tensors, format));
  RETURN_IF_ERROR(folder->Write(kGenerationConfig, JsonFile(GenerationConfig(config))));
  return folder->Write(kConfig, JsonFile(config));
}

}  // namespace swarm::checkpoint
