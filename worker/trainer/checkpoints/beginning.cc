#include "worker/trainer/checkpoints/beginning.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "api/format/enum_names.h"
#include "api/model/boundary.h"
#include "api/model/decoder_config.h"
#include "api/parse.h"
#include "base/log.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/model/layout/slice.h"
#include "worker/storage/places.h"

namespace swarm::trainer {

namespace {

constexpr std::string_view kRecordPrefix = "generation-", kRecordSuffix = ".json";

std::string RecordName(protocol::Generation generation) {
  return std::string(kRecordPrefix) + std::to_string(generation.value) + std::string(kRecordSuffix);
}

/// The generations that trainers have begun (rule 19), each with the version that it began with.
Result<std::map<protocol::Generation, protocol::Version>> ReadBegunGenerations(
    storage::Storage& storage) {
  ASSIGN_OR_RETURN(const auto names, storage.List(std::string(kRecordPrefix)));
  std::map<protocol::Generation, protocol::Version> begun;
  for (const std::string& name : names) {
    if (!name.ends_with(kRecordSuffix)) continue;
    const std::string number = name.substr(
        kRecordPrefix.size(), name.size() - kRecordPrefix.size() - kRecordSuffix.size());
    if (number.empty() || number.size() > 18 ||
        number.find_first_not_of("0123456789") != number.npos) {
      continue;
    }
    ASSIGN_OR_RETURN(const Bytes content, storage.Read(name));
    const auto json = nlohmann::json::parse(content.text(), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("version") || !json["version"].is_number_unsigned()) {
      return DataLoss(storage.Describe(name) + " does not record the beginning of a generation");
    }
    begun[protocol::Generation(std::stoull(number))] =
        protocol::Version(json["version"].get<std::uint64_t>());
  }
  return begun;
}

/// The newest checkpoint from which the job may go on; none if there is none. It passes over a
/// checkpoint that a generation published late, after a later generation had begun at an earlier
/// version.
Result<std::optional<checkpoint::CheckpointId>> FindNewest(
    storage::Storage& storage, const std::map<protocol::Generation, protocol::Version>& begun) {
  ASSIGN_OR_RETURN(const auto ids, checkpoint::ListCheckpoints(storage));
  for (const checkpoint::CheckpointId& id : ids) {  // the newest first
    const bool counts = std::all_of(begun.begin(), begun.end(), [&](const auto& other) {
      return other.first <= id.generation || id.version <= other.second;
    });
    if (counts) return std::optional(id);
  }
  return std::optional<checkpoint::CheckpointId>();
}

std::string UriOf(const std::string& uri, const checkpoint::CheckpointId& id) {
  return uri + (uri.ends_with('/') ? "" : "/") + id.Folder();
}

/// The same in the copies, for a job whose home has lost its checkpoints. Leaves out what is set
/// aside at home, and copies that do not answer.
Result<std::optional<checkpoint::CheckpointId>> FindNewestCopy(
    std::span<const storage::Place> copies, storage::Storage& home) {
  std::optional<checkpoint::CheckpointId> newest;
  for (const storage::Place& copy : copies) {
    auto storage = storage::OpenPlace(copy);
    const auto ids = storage.ok() ? checkpoint::ListCheckpoints(**storage) : storage.status();
    if (!ids.ok()) LOG_WARN("the copies in {} do not count: {}", copy.uri, ids.status().message());
    if (!ids.ok()) continue;
    for (const checkpoint::CheckpointId& id : *ids) {
      ASSIGN_OR_RETURN(const bool aside, checkpoint::IsSetAside(home, id));
      if (!aside && (!newest || *newest < id)) newest = id;
    }
  }
  return newest;
}

/// The places of the job's checkpoints, home before all copies.
std::vector<storage::Place> PlacesFromHome(const api::Spec& spec) {
  std::vector<storage::Place> places = storage::CheckpointPlaces(spec);
  std::ranges::stable_partition(places, &storage::Place::home);
  return places;
}

/// Errors: kDataLoss for a checkpoint that is damaged in all places, those of Storage.
Result<checkpoint::Manifest> ReadIntact(std::span<const storage::Place> places,
                                        const checkpoint::CheckpointId& id, Look look) {
  ASSIGN_OR_RETURN(const auto reader,
                   checkpoint::CheckpointReader::OpenNearest(places, id.Folder()));
  const checkpoint::Manifest& manifest = reader->manifest();
  const checkpoint::CheckpointId found{manifest.generation, manifest.version};
  if (found != id) return DataLoss(id.Folder() + " has the manifest of " + found.Folder());
  if (look == Look::kFiles) RETURN_IF_ERROR(reader->CheckFiles());
  return manifest;
}

/// Refuses copies of another run, which could be taken for those of this one.
Status CheckNoCopies(std::span<const storage::Place> copies) {
  for (const storage::Place& copy : copies) {
    auto storage = storage::OpenPlace(copy);
    const auto there = storage.ok() ? checkpoint::ListCheckpoints(**storage) : storage.status();
    if (!there.ok() || there->empty()) continue;
    return FailedPrecondition(copy.uri +
                              " holds checkpoints already: go on from them with --resume, or give"
                              " region " +
                              copy.region + " another checkpointUri in spec.storage.regions");
  }
  return Status();
}

/// The part of a boundary that belongs to the model, without the encoding of its numbers.
api::Boundary ModelPartOf(const api::Boundary& boundary) {
  api::Boundary part = boundary;
  const api::Boundary defaults;
  part.coefficients = defaults.coefficients;
  part.gradientCodec = defaults.gradientCodec;
  part.blockSize = defaults.blockSize;
  return part;
}

Status CheckSameBoundaries(const api::Boundary& wanted, const Beginning& beginning) {
  const api::Boundary found = beginning.boundary.value_or(api::Boundary());
  api::Boundary expected = wanted;
  if (!expected.layers) expected.layers = found.layers;
  const bool same = api::IsPartOfModel(wanted)
                        ? beginning.boundary && ModelPartOf(expected) == ModelPartOf(found)
                        : !beginning.boundary;
  if (same) return Status();
  return FailedPrecondition(
      "the model in " + beginning.checkpoint_uri + " has the boundaries " +
      (beginning.boundary ? api::BoundaryToJson(found).dump() : "of a plain one") +
      ", and the job's are " + api::BoundaryToJson(wanted).dump() +
      "; they are a part of it: take spec.pipeline.boundary from there, or begin anew");
}

Status CheckSameLora(const api::Lora& wanted, const Beginning& beginning) {
  const bool both_without = wanted.rank == 0 && beginning.lora.rank == 0;
  if (both_without || wanted == beginning.lora) return Status();
  const auto text = [](const api::Lora& lora) {
    return lora.rank == 0 ? "no adapters" : "the adapters " + api::LoraToJson(lora).dump();
  };
  return FailedPrecondition("the model in " + beginning.checkpoint_uri + " has " +
                            text(beginning.lora) + ", and the job's has " + text(wanted) +
                            "; take spec.model.lora from there, or begin anew in another"
                            " spec.checkpoint.uri");
}

/// Whether a job that resumes may change `key` of its config.
bool MayChange(const std::string& key, const api::Boundary& boundary) {
  if (key == "max_position_embeddings") return true;  // bounds sequences, computes nothing
  // The weights exist already. But the fixed table of Subspace is made from their initial values.
  return key == "initializer_range" && boundary.codec != api::BoundaryCodec::kSubspace;
}

/// Whether a null, or an absent key, says that the model does without it.
bool IsOffAsNull(const std::string& key) {
  return key == "rope_scaling" || key == "sliding_window" || key == "attn_logit_softcapping" ||
         key == "final_logit_softcapping";
}

/// Shapes of tensors would not tell: another number of heads may fit, and the base of the rotary
/// embedding has none.
Status CheckSameConfig(const api::SwarmJob& job, const Beginning& beginning) {
  const auto found =
      nlohmann::json::parse(beginning.config_json, nullptr, /*allow_exceptions=*/false);
  if (!found.is_object()) return Status();
  const nlohmann::json wanted = api::DecoderConfigToJson(job.spec.model.config);
  for (const auto& [key, value] : wanted.items()) {
    const nlohmann::json there = found.value(key, nlohmann::json());
    if (there == value) continue;
    // A key that the program that wrote the checkpoint did not know is no difference.
    if (there.is_null() && !IsOffAsNull(key)) continue;
    if (MayChange(key, job.spec.pipeline.boundary)) continue;
    return FailedPrecondition("the model in " + beginning.checkpoint_uri + " has " + key + " " +
                              there.dump() + ", the job says " + value.dump() +
                              "; take it from there (spec.model.config, or config.json in"
                              " spec.model.uri), or begin anew in another spec.checkpoint.uri");
  }
  return Status();
}

}  // namespace

Result<Beginning> FindBeginning(const api::SwarmJob& job, bool resume, Look look) {
  const api::Spec& spec = job.spec;
  const std::string& uri = spec.checkpoint.uri;
  if (uri.empty()) return Beginning();
  ASSIGN_OR_RETURN(const auto storage, storage::Storage::Open(uri, spec.storage));
  const std::vector<storage::Place> places = PlacesFromHome(spec);
  const auto copies = std::span(places).subspan(1);
  if (!resume) {
    RETURN_IF_ERROR(CheckNoCopies(copies));
    // If the storage cannot be reached now, that costs checkpoints later, but not the training.
    const auto there = checkpoint::ListCheckpoints(*storage);
    if (!there.ok()) return Beginning();
    if (there->empty()) {
      // Generations that an earlier run has begun, and left nothing in, are not used again.
      const auto begun = ReadBegunGenerations(*storage);
      if (!begun.ok() || begun->empty()) return Beginning();
      return Beginning{begun->rbegin()->first, {}, {}, {}, {}, {}};
    }
    return FailedPrecondition(uri +
                              " holds checkpoints already: go on from them with --resume, or give"
                              " another spec.checkpoint.uri");
  }
  ASSIGN_OR_RETURN(const auto begun, ReadBegunGenerations(*storage));
  const protocol::Generation newest_begun =
      begun.empty() ? protocol::Generation() : begun.rbegin()->first;
  std::vector<std::string> damaged;
  std::optional<checkpoint::Manifest> manifest;
  while (!manifest) {
    ASSIGN_OR_RETURN(auto newest, FindNewest(*storage, begun));
    if (!newest) {
      ASSIGN_OR_RETURN(newest, FindNewestCopy(copies, *storage));
    }
    if (!newest) return Beginning{newest_begun, {}, {}, {}, {}, std::move(damaged)};
    auto read = ReadIntact(places, *newest, look);
    if (read.ok()) {
      manifest = *std::move(read);
    } else if (read.status().code() == StatusCode::kDataLoss) {
      RETURN_IF_ERROR(checkpoint::SetAside(*storage, *newest, read.status().message()));
      damaged.push_back(newest->Folder() + ": " + read.status().message());
    } else {
      return read.status();
    }
  }
  if (manifest->seed != spec.training.seed) {
    return FailedPrecondition("the checkpoint in " + uri + " was trained with seed " +
                              std::to_string(manifest->seed) + ", the job says " +
                              std::to_string(spec.training.seed));
  }
  if (spec.training.overlaps_steps() && !manifest->previous && manifest->version.value > 0) {
    return FailedPrecondition(
        "the checkpoint in " + uri + " was made where steps do not overlap (Sync); " +
        std::string(NameOf(spec.training.stepMode)) + " needs the version before too");
  }
  const checkpoint::CheckpointId id{manifest->generation, manifest->version};
  Beginning beginning{std::max(manifest->generation, newest_begun),
                      manifest->version,
                      UriOf(uri, id),
                      {},
                      manifest->config_json,
                      std::move(damaged)};
  beginning.manifest = manifest->digest;
  if (!manifest->boundary_json.empty()) {
    const auto json = nlohmann::json::parse(manifest->boundary_json, nullptr, false);
    auto boundary = api::BoundaryFromJson(json, "boundary");
    if (!boundary.ok()) return boundary.status().WithContext(beginning.checkpoint_uri);
    beginning.boundary = *std::move(boundary);
  }
  if (!manifest->lora_json.empty()) {
    const auto json = nlohmann::json::parse(manifest->lora_json, nullptr, false);
    const auto lora = api::LoraFromJson(json, "lora");
    if (!lora.ok()) return lora.status().WithContext(beginning.checkpoint_uri);
    beginning.lora = *lora;
  }
  return beginning;
}

Status ResolveBoundary(api::SwarmJob* job, std::uint64_t stages, const Beginning& beginning) {
  api::Boundary& boundary = job->spec.pipeline.boundary;
  const api::DecoderConfig& config = job->spec.model.config;
  if (!beginning.checkpoint_uri.empty()) {
    RETURN_IF_ERROR(CheckSameBoundaries(boundary, beginning));
    RETURN_IF_ERROR(CheckSameLora(job->spec.model.lora, beginning));
    RETURN_IF_ERROR(CheckSameConfig(*job, beginning));
    if (beginning.boundary) boundary.layers = beginning.boundary->layers;
  }
  ASSIGN_OR_RETURN(boundary.layers, model::ComputeBoundaryLayers(config, stages, boundary));
  return model::ComputeSlice(config, 0, stages, boundary).status();
}

Result<Beginning> BeginGeneration(const api::SwarmJob& job, const std::string& folder,
                                  protocol::Generation wanted, protocol::Term term, Look look) {
  constexpr std::uint64_t kTries = 1000;
  ASSIGN_OR_RETURN(Beginning beginning, FindBeginning(job, /*resume=*/true, look));
  const std::string& uri = job.spec.checkpoint.uri;
  ASSIGN_OR_RETURN(const auto storage,
                   storage::Storage::Open(uri.empty() ? folder : uri, job.spec.storage));
  const std::string record = "{\"term\": " + std::to_string(term.value) +
                             ", \"version\": " + std::to_string(beginning.version.value) + "}\n";
  for (std::uint64_t i = 0; i < kTries; ++i) {
    beginning.generation = protocol::Generation(wanted.value + i);
    const Status status =
        storage->WriteIfAbsent(RecordName(beginning.generation), Bytes::Copy(record));
    if (status.ok()) return beginning;
    if (status.code() != StatusCode::kAlreadyExists) return status;
  }
  return Unavailable("no generation after " + std::to_string(wanted.value) + " is free in " +
                     storage->Describe(""));
}

}  // namespace swarm::trainer
