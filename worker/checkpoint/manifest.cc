#include "worker/checkpoint/manifest.h"

#include <charconv>
#include <utility>

#include "worker/checkpoint/json.h"

namespace swarm::checkpoint {
namespace {

// A field that is missing or has another type throws Json::exception, which DecodeManifest turns
// into kDataLoss.
std::uint64_t Number(const Json& json) {
  if (!json.is_number_unsigned()) throw Json::other_error::create(500, "no natural number", &json);
  return json.get<std::uint64_t>();
}

Digest ParseDigest(const Json& json) {
  const auto& hex = json.get_ref<const std::string&>();
  Digest digest;
  const char* text = hex.data();
  const bool parsed = hex.size() == 32 &&
                      std::from_chars(text, text + 16, digest.high, 16).ptr == text + 16 &&
                      std::from_chars(text + 16, text + 32, digest.low, 16).ptr == text + 32;
  if (!parsed) throw Json::other_error::create(500, "no digest", &json);
  return digest;
}

/// The text of an object that may be there.
std::string ObjectText(const Json& json, const char* key) {
  if (!json.contains(key)) return "";
  if (!json.at(key).is_object()) throw Json::other_error::create(500, "no object", &json);
  return json.at(key).dump();
}

Manifest Decode(const Json& json) {
  Manifest manifest;
  manifest.job_name = json.at("job").at("name").get<std::string>();
  manifest.job_uid = json.at("job").at("uid").get<std::string>();
  manifest.generation = protocol::Generation(Number(json.at("generation")));
  manifest.term = protocol::Term(Number(json.at("term")));
  manifest.version = protocol::Version(Number(json.at("version")));
  manifest.seed = Number(json.at("seed"));
  manifest.stage_count = Number(json.at("stageCount"));
  manifest.previous = json.at("previous").get<bool>();
  const Json& model = json.at("model");
  if (!model.is_object()) throw Json::other_error::create(500, "no object", &model);
  manifest.config_json = model.dump();
  manifest.boundary_json = ObjectText(json, "boundary");
  manifest.lora_json = ObjectText(json, "lora");
  if (json.contains("tokenizer")) manifest.tokenizer = json.at("tokenizer").get<std::string>();
  for (const Json& file : json.at("files")) {
    manifest.files.push_back({file.at("name").get<std::string>(), Number(file.at("bytes")),
                              ParseDigest(file.at("digest"))});
  }
  for (const auto& [name, index] : json.at("tensors").items()) {
    const std::uint64_t file = Number(index);
    if (file >= manifest.files.size()) throw Json::other_error::create(500, "no such file", &index);
    manifest.tensors[name] = file;
  }
  return manifest;
}

}  // namespace

Result<Bytes> EncodeManifest(const Manifest& manifest) {
  const auto model = ParseJsonObject(manifest.config_json);
  if (!model.ok()) return InvalidArgument("the model's config: " + model.status().message());
  Json files = Json::array();
  for (const protocol::CheckpointFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"digest", file.digest.Hex()}});
  }
  Json json = {{"format", kManifestFormat},
               {"job", {{"name", manifest.job_name}, {"uid", manifest.job_uid}}},
               {"generation", manifest.generation.value},
               {"term", manifest.term.value},
               {"version", manifest.version.value},
               {"seed", manifest.seed},
               {"stageCount", manifest.stage_count},
               {"previous", manifest.previous},
               {"model", *model},
               {"files", files},
               {"tensors", manifest.tensors}};
  for (const auto& [key, object] :
       {std::pair{"boundary", &manifest.boundary_json}, {"lora", &manifest.lora_json}}) {
    if (object->empty()) continue;
    const auto parsed = ParseJsonObject(*object);
    if (!parsed.ok()) return InvalidArgument(std::string(key) + ": " + parsed.status().message());
    json[key] = *parsed;
  }
  if (!manifest.tokenizer.empty()) json["tokenizer"] = manifest.tokenizer;
  try {
    return Bytes::Copy(json.dump(2) + "\n");
  } catch (const Json::exception& error) {
    return InvalidArgument(std::string("a manifest cannot be written: ") + error.what());
  }
}

Result<Manifest> DecodeManifest(const Bytes& text) {
  const auto parsed = ParseJsonObject(text.text());
  if (!parsed.ok()) return parsed.status().WithContext("a manifest");
  const Json& json = *parsed;
  try {
    const std::uint64_t format = Number(json.at("format"));
    if (format > kManifestFormat) {
      return FailedPrecondition("a manifest of format " + std::to_string(format) +
                                ", this program reads up to " + std::to_string(kManifestFormat) +
                                "; use the program that wrote it, or a newer one");
    }
    Manifest manifest = Decode(json);
    manifest.digest = ComputeDigest(text.span());
    return manifest;
  } catch (const Json::exception& error) {
    return DataLoss(std::string("a manifest that is damaged: ") + error.what());
  }
}

}  // namespace swarm::checkpoint
