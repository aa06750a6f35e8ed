// Models as Hugging Face keeps them: a folder with config.json and safetensors, in one file or in
// shards with an index.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/tensor.h"
#include "worker/storage/storage.h"

namespace swarm::checkpoint {

/// A model folder to read from. Opens a shard when a tensor of it is asked for. Not thread-safe.
class HuggingFaceFolder {
 public:
  /// Errors: kNotFound (no config.json, or neither model.safetensors nor its index), kDataLoss,
  /// those of Storage; they name the file.
  static Result<std::unique_ptr<HuggingFaceFolder>> Open(const std::string& uri,
                                                         const api::Storage& options = {});

  /// The text of config.json: a JSON object.
  const std::string& config_json() const { return config_json_; }

  /// The tensor as float32, whatever the file holds. Errors: kNotFound (a model with a tied head
  /// has no lm_head.weight), kDataLoss, kInvalidArgument or kUnimplemented (no weights' type).
  Result<NamedTensor> Lookup(const std::string& name);
  /// The tensor as it is in the file; shares its memory.
  Result<NamedTensor> LookupRaw(const std::string& name);

 private:
  explicit HuggingFaceFolder(std::unique_ptr<storage::Storage> folder)
      : folder_(std::move(folder)) {}
  Status ReadConfig();
  Status ReadIndex();
  Result<const SafetensorsFile*> OpenShard(const std::string& file_name);

  const std::unique_ptr<storage::Storage> folder_;
  std::string config_json_;
  std::map<std::string, std::string> shard_of_;  // tensor to file name; empty: one file
  std::map<std::string, SafetensorsFile> shards_;
};

/// How weights are written.
struct WeightsFormat {
  ElementType type = ElementType::kF32;     ///< or kBF16
  std::uint64_t shard_bytes = 5'000'000'000;  ///< of tensors in a file; a larger tensor has its own
};

/// Writes config.json, generation_config.json and the float32 `tensors`, such that
/// AutoModelForCausalLM.from_pretrained reads it: as model.safetensors, or if that would have more
/// than shard_bytes, as model-00001-of-00002.safetensors and so on, with
/// model.safetensors.index.json. Leave lm_head.weight out of `tensors` when the head is tied.
/// Errors: kInvalidArgument (config_json is no JSON object), those of EncodeSafetensors and
/// Storage.
Status WriteHuggingFaceFolder(const std::string& uri, const std::string& config_json,
                              std::span<const NamedTensor> tensors,
                              const WeightsFormat& format = {}, const api::Storage& options = {});

}  // namespace swarm::checkpoint
