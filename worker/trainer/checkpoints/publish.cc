#include "worker/trainer/checkpoints/publish.h"

#include <nlohmann/json.hpp>

#include "api/format/enum_names.h"
#include "api/model/boundary.h"
#include "api/model/decoder_config.h"
#include "api/parse.h"
#include "base/log.h"

namespace swarm::trainer {

Status PublishCheckpoint(storage::Storage& storage, const api::SwarmJob& job,
                         const data::TokenizerFiles& tokenizer, checkpoint::Manifest manifest) {
  manifest.job_name = job.name;
  manifest.seed = job.spec.training.seed;
  manifest.previous = job.spec.training.overlaps_steps() && manifest.version.value > 0;
  manifest.config_json = api::DecoderConfigToJson(job.spec.model.config).dump();
  const api::Boundary& boundary = job.spec.pipeline.boundary;
  if (api::IsPartOfModel(boundary)) manifest.boundary_json = api::BoundaryToJson(boundary).dump();
  if (job.spec.model.lora.rank > 0) {
    manifest.lora_json = api::LoraToJson(job.spec.model.lora).dump();
  }
  manifest.tokenizer = tokenizer.kind == api::TokenizerKind::kAuto
                           ? checkpoint::kNoTokenizer
                           : std::string(swarm::NameOf(tokenizer.kind));
  const checkpoint::CheckpointId id{manifest.generation, manifest.version};
  RETURN_IF_ERROR(data::WriteTokenizerFiles(tokenizer, storage, id.Folder() + "/"));
  const Status status = checkpoint::PublishManifest(storage, manifest);
  if (!status.ok() && status.code() != StatusCode::kAlreadyExists) return status;
  const auto removed = checkpoint::RemoveOld(storage, job.spec.checkpoint.keepLast);
  if (!removed.ok()) LOG_WARN("old checkpoints stay: {}", removed.status().message());
  return Status();
}

}  // namespace swarm::trainer
