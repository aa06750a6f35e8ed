#include "worker/stage/load.h"

#include "api/model/memory.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/model/adapters.h"
#include "worker/storage/storage.h"

namespace swarm::stage {

model::StageOptions OptionsOf(const api::SwarmJob& job, std::uint64_t stage,
                              std::uint64_t stage_count, int threads, const std::string& device) {
  const api::Training& training = job.spec.training;
  return {.config = job.spec.model.config,
          .stage = stage,
          .stage_count = stage_count,
          .microbatches = job.microbatches(),
          .precision = training.precision,
          .z_loss = training.zLoss,
          .step_mode = training.stepMode,
          .accumulation = training.accumulation,
          .recompute = job.spec.pipeline.recompute,
          .boundary = job.spec.pipeline.boundary,
          .lora = job.spec.model.lora,
          .seed = training.seed,
          .optimizer = job.spec.optimizer,
          .threads = threads,
          .device = device};
}

namespace {

/// A stage that other replicas may serve, too.
Result<std::unique_ptr<model::Stage>> CreateReplica(const api::SwarmJob& job,
                                                    const protocol::Welcome& welcome, int threads,
                                                    const std::string& device,
                                                    const CreateStage& create) {
  model::StageOptions options =
      OptionsOf(job, welcome.stage.value, welcome.stage_count, threads, device);
  options.divided = job.spec.pipeline.shardUpdate == api::ShardUpdate::kMoments;
  return create(options);
}

}  // namespace

std::uint64_t StateBytes(const api::SwarmJob& job, const model::Stage& stage) {
  std::uint64_t parameters = 0, frozen = 0;
  for (const model::ParameterGroup& group : stage.groups()) parameters += group.count;
  for (const model::ParameterSlot& slot : stage.frozen()) frozen += slot.count;
  return api::StateBytes(job.spec, parameters, frozen);
}

Status LoadInitialState(const api::SwarmJob& job, const std::string& checkpoint_uri,
                        protocol::Version version, model::Stage* stage) {
  if (!checkpoint_uri.empty()) {
    ASSIGN_OR_RETURN(const auto reader,
                     checkpoint::CheckpointReader::Open(checkpoint_uri, job.spec.storage));
    return stage->Load([&](const std::string& name) { return reader->Lookup(name); }, version,
                       /*optimizer=*/true);
  }
  if (job.spec.model.init == api::ModelInit::kPretrained) {
    ASSIGN_OR_RETURN(const auto folder,
                     checkpoint::HuggingFaceFolder::Open(job.spec.model.uri, job.spec.storage));
    checkpoint::TensorLookup weights = [&](const std::string& name) {
      return folder->Lookup(name);
    };
    if (job.spec.model.lora.rank > 0) {
      weights = model::WithNewAdapters(std::move(weights), job.spec.model.config,
                                       job.spec.training.seed, stage->parameters());
    }
    return stage->Load(weights, version, /*optimizer=*/false);
  }
  stage->InitRandom(job.spec.training.seed);
  return Status();
}

Result<std::unique_ptr<model::Stage>> LoadStage(const api::SwarmJob& job,
                                                const protocol::Welcome& welcome, int threads,
                                                const std::string& device,
                                                const CreateStage& create) {
  ASSIGN_OR_RETURN(auto stage, CreateReplica(job, welcome, threads, device, create));
  RETURN_IF_ERROR(LoadInitialState(job, welcome.checkpoint_uri, welcome.version, stage.get()));
  return stage;
}

Result<std::unique_ptr<model::Stage>> TakeStage(const api::SwarmJob& job,
                                                const protocol::Welcome& welcome,
                                                const checkpoint::TensorLookup& tensors,
                                                int threads, const std::string& device,
                                                const CreateStage& create) {
  ASSIGN_OR_RETURN(auto stage, CreateReplica(job, welcome, threads, device, create));
  RETURN_IF_ERROR(stage->Load(tensors, welcome.version, /*optimizer=*/true));
  return stage;
}

Result<std::vector<protocol::CheckpointFile>> WriteStage(
    const api::SwarmJob& job, const protocol::WriteCheckpoint& request,
    const protocol::Welcome& welcome, const std::vector<checkpoint::NamedTensor>& tensors) {
  ASSIGN_OR_RETURN(const auto storage, storage::Storage::Open(request.uri, job.spec.storage));
  const checkpoint::CheckpointId id{request.generation, request.version};
  // Several workers write moments of other parts.
  const std::string apart = request.weights || request.moments.empty()
                                ? ""
                                : "-from-" + std::to_string(request.moments.front().part);
  return checkpoint::WriteStageFiles(*storage, id.Folder(), welcome.stage.value,
                                     welcome.stage_count, tensors, apart);
}

}  // namespace swarm::stage
