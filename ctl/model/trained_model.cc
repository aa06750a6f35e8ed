#include "ctl/model/trained_model.h"

#include <nlohmann/json.hpp>

#include "api/format/enum_names.h"
#include "api/model/decoder_config.h"
#include "api/parse.h"
#include "api/validate.h"
#include "ctl/model/threads.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/storage/storage.h"

namespace swarm::ctl {
namespace {

Result<api::DecoderConfig> ParseConfig(const std::string& text, const std::string& path) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<api::FieldError> errors;
  const api::DecoderConfig config = api::ParseDecoderConfig(json, path, &errors);
  if (errors.empty()) errors = api::ValidateDecoderConfig(config, path);
  if (!errors.empty()) return api::ToStatus(errors);
  return config;
}

// Whether `name` is there; absence is no error.
Result<bool> Exists(storage::Storage& storage, const std::string& name) {
  const Status status = storage.Size(name).status();
  if (status.code() == StatusCode::kNotFound) return false;
  if (!status.ok()) return status;
  return true;
}

// The tokenizer in a checkpoint whose manifest says that it has one of this kind.
Result<std::optional<api::Tokenizer>> TokenizerOf(const std::string& kind, const std::string& uri,
                                                  const api::Storage& options) {
  using Found = std::optional<api::Tokenizer>;
  if (kind.empty()) return Found();
  if (kind == checkpoint::kNoTokenizer) return Found(api::Tokenizer{});
  if (kind == NameOf(api::TokenizerKind::kByte)) {
    return Found(api::Tokenizer{api::TokenizerKind::kByte, ""});
  }
  ASSIGN_OR_RETURN(const api::Tokenizer found, data::FindTokenizer(uri, options));
  if (kind == NameOf(found.kind)) return Found(found);
  return DataLoss(uri + "/manifest.json says that the tokenizer is " + kind +
                  ", whose file is not there");
}

Result<TrainedModel> OpenCheckpoint(const std::string& uri, const api::Storage& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<checkpoint::CheckpointReader> reader,
                   checkpoint::CheckpointReader::Open(uri, options));
  TrainedModel found{.uri = uri, .version = reader->manifest().version};
  ASSIGN_OR_RETURN(found.config,
                   ParseConfig(reader->manifest().config_json, uri + "/manifest.json: config"));
  found.seed = reader->manifest().seed;
  if (const std::string& text = reader->manifest().boundary_json; !text.empty()) {
    const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    auto boundary = api::BoundaryFromJson(json, uri + "/manifest.json: boundary");
    if (!boundary.ok()) return boundary.status();
    found.boundary = *std::move(boundary);
  }
  if (const std::string& text = reader->manifest().lora_json; !text.empty()) {
    const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    const auto lora = api::LoraFromJson(json, uri + "/manifest.json: lora");
    if (!lora.ok()) return lora.status();
    found.lora = *lora;
  }
  ASSIGN_OR_RETURN(found.tokenizer, TokenizerOf(reader->manifest().tokenizer, uri, options));
  found.weights = [reader](const std::string& name) { return reader->Lookup(name); };
  return found;
}

Result<TrainedModel> OpenHuggingFace(const std::string& uri) {
  ASSIGN_OR_RETURN(std::shared_ptr<checkpoint::HuggingFaceFolder> folder,
                   checkpoint::HuggingFaceFolder::Open(uri));
  TrainedModel found{.uri = uri};
  ASSIGN_OR_RETURN(found.config, ParseConfig(folder->config_json(), uri + "/config.json"));
  found.weights = [folder](const std::string& name) { return folder->Lookup(name); };
  ASSIGN_OR_RETURN(const api::Tokenizer tokenizer, data::FindTokenizer(uri, {}));
  if (tokenizer.kind != api::TokenizerKind::kAuto) found.tokenizer = tokenizer;
  return found;
}

// The newest checkpoint in a folder of them. Errors: kNotFound (there is none).
Result<TrainedModel> OpenNewest(const std::string& uri, const api::Storage& options) {
  ASSIGN_OR_RETURN(const auto storage, storage::Storage::Open(uri, options));
  ASSIGN_OR_RETURN(const auto checkpoints, checkpoint::ListCheckpoints(*storage));
  if (checkpoints.empty()) return NotFound("no checkpoint in " + uri);
  return OpenCheckpoint(uri + "/" + checkpoints.front().Folder(), options);
}

// Of a run that has job.json.
Result<TrainedModel> OpenRun(const std::string& uri, storage::Storage& storage) {
  ASSIGN_OR_RETURN(const Bytes text, storage.Read("job.json"));
  api::Checked<api::SwarmJob> job = api::FromJsonText(text.text());
  if (!job.ok()) return job.status().WithContext(uri + "/job.json");
  const std::string& named = job->spec.checkpoint.uri;
  ASSIGN_OR_RETURN(TrainedModel found,
                   OpenNewest(named.empty() ? uri + "/checkpoints" : named, job->spec.storage));
  // Earlier programs wrote no tokenizer into checkpoints.
  const api::Tokenizer& tokenizer = job->spec.model.tokenizer;
  if (!found.tokenizer && tokenizer.kind != api::TokenizerKind::kAuto) found.tokenizer = tokenizer;
  found.job = *std::move(job);
  return found;
}

}  // namespace

std::uint64_t TrainedModel::sequence_length() const {
  return job ? job->spec.training.sequenceLength
             : static_cast<std::uint64_t>(config.max_position_embeddings);
}

Result<TrainedModel> FindModel(const std::string& given) {
  std::string uri = given;
  while (uri.size() > 1 && uri.ends_with('/')) uri.pop_back();
  ASSIGN_OR_RETURN(const auto storage, storage::Storage::Open(uri));
  ASSIGN_OR_RETURN(const bool is_checkpoint, Exists(*storage, "manifest.json"));
  if (is_checkpoint) return OpenCheckpoint(uri, {});
  ASSIGN_OR_RETURN(const bool is_hugging_face, Exists(*storage, "config.json"));
  if (is_hugging_face) return OpenHuggingFace(uri);
  ASSIGN_OR_RETURN(const bool is_run, Exists(*storage, "job.json"));
  if (is_run) return OpenRun(uri, *storage);
  for (const std::string& folder : {uri, uri + "/checkpoints"}) {
    Result<TrainedModel> found = OpenNewest(folder, {});
    if (found.status().code() != StatusCode::kNotFound) return found;
  }
  return NotFound("no model in " + uri +
                  ": it has no manifest.json (a checkpoint), no config.json (a Hugging Face"
                  " folder), no checkpoints such as step-00000100-g0, and no folder checkpoints"
                  " (of a run)");
}

Result<std::unique_ptr<model::Stage>> LoadWholeModel(const TrainedModel& found, int threads,
                                                     const std::string& device) {
  ASSIGN_OR_RETURN(auto stage,
                   model::Stage::Create({.config = found.config,
                                         .boundary = found.boundary,
                                         .lora = found.lora,
                                         .seed = found.seed,
                                         .threads = ComputeThreads(threads, found.config),
                                         .device = device}));
  const Status status = stage->Load(found.weights, found.version, /*optimizer=*/false);
  if (!status.ok()) return status.WithContext(found.uri);
  return stage;
}

api::Tokenizer ChooseTokenizer(const TrainedModel& found, const std::string& flag) {
  if (flag == "byte") return {api::TokenizerKind::kByte, ""};
  if (!flag.empty()) return api::TokenizerAt(flag);
  if (found.tokenizer) return *found.tokenizer;
  if (found.config.vocab_size == 256) return {api::TokenizerKind::kByte, ""};
  return {};
}

}  // namespace swarm::ctl
