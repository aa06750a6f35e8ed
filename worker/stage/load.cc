#include "worker/stage/load.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "api/format/enum_names.h"
#include "api/model/memory.h"
#include "api/outer_step.h"
#include "base/log.h"
#include "base/machine_memory.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/model/adapters.h"
#include "worker/model/layout/layout.h"
#include "worker/optim/schedule.h"
#include "worker/storage/storage.h"
#include "worker/tier/scratch_file.h"

namespace swarm::stage {

namespace {

std::uint64_t PartForSwap(std::uint64_t memory) { return memory / 2; }

/// Of the host.
std::uint64_t SwapMemory(const api::SwarmJob& job) {
  const std::uint64_t wanted = job.spec.pipeline.memory.host;
  return wanted > 0 ? wanted : PartForSwap(UsableMemory());
}

/// Of the host, where segments are computed in it.
std::uint64_t SegmentMemory(const api::SwarmJob& job) {
  const std::uint64_t wanted = job.spec.pipeline.memory.device;
  return wanted > 0 ? std::min(wanted, SwapMemory(job)) : SwapMemory(job);
}

std::string ScratchFolder(const api::SwarmJob& job) {
  const std::string& wanted = job.spec.pipeline.memory.scratch;
  return wanted.empty() ? std::filesystem::temp_directory_path().string() : wanted;
}

model::SwapOptions SwapOptionsOf(const api::SwarmJob& job) {
  const api::Pipeline& pipeline = job.spec.pipeline;
  if (pipeline.residency != api::Residency::kSwap) return {};
  return {.memory = SegmentMemory(job),
          .scratch = ScratchFolder(job),
          .tasks = api::TasksTogether(job.spec),
          .task_bytes = api::BoundaryBytes(job)};
}

model::LocalOptions LocalOptionsOf(const api::SwarmJob& job) {
  const api::Training& training = job.spec.training;
  if (training.stepMode != api::StepMode::kLocal) return {};
  const api::OuterStep outer = api::OuterStepOf(training);
  return {.inner_steps = training.local.innerSteps,
          .microbatches = training.local.microbatches,
          .outer_learning_rate = outer.learning_rate,
          .outer_momentum = outer.momentum,
          .max_grad_norm = training.maxGradNorm,
          .overlaps = training.local.overlap,
          .fragments = training.local.fragments,
          .sums_weights = training.local.innerSteps == 1 && outer.learning_rate == 1 &&
                          outer.momentum == 0 && !training.local.overlap &&
                          training.local.fragments == 1 &&
                          training.reduceCodec == api::ReduceCodec::kNone,
          .learning_rate = [spec = job.spec](protocol::Version version) {
            return optim::LearningRate(version.value, spec.optimizer, spec.schedule,
                                       spec.training.maxSteps);
          }};
}

}  // namespace

void FillInHostMemory(std::uint64_t memory, api::SwarmJob* job) {
  if (job->spec.pipeline.residency != api::Residency::kSwap) return;
  std::uint64_t& host = job->spec.pipeline.memory.host;
  if (host == 0) host = PartForSwap(memory > 0 ? memory : UsableMemory());
}

MakeMemory MemoryForState(const api::SwarmJob& job) {
  if (job.spec.pipeline.residency != api::Residency::kSwap) return MakeHeapMemory;
  return [folder = ScratchFolder(job)](std::uint64_t bytes) {
    return tier::MapScratchFile(folder, bytes);
  };
}

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
          .device = device,
          .residency = job.spec.pipeline.residency.value_or(api::Residency::kResident),
          .swap = SwapOptionsOf(job),
          .local = LocalOptionsOf(job),
          .audited = training.audit.fraction > 0};
}

namespace {

struct ParameterCounts {
  std::uint64_t trained = 0, frozen = 0;
};

Result<ParameterCounts> CountParameters(const api::SwarmJob& job, std::uint64_t stage,
                                        std::uint64_t stage_count) {
  ASSIGN_OR_RETURN(const model::Layout layout,
                   model::ComputeParameterLayout(job.spec.model.config, stage, stage_count,
                                                 job.spec.pipeline.boundary, job.spec.model.lora));
  ParameterCounts counts{.frozen = layout.frozen_count};
  for (const model::ParameterGroup& group : layout.groups) counts.trained += group.count;
  return counts;
}

/// The number of "cuda:N"; none of the CPU.
std::optional<int> GpuOf(const std::string& device) {
  constexpr std::string_view kName = "cuda";
  if (!device.starts_with(kName)) return {};
  int index = 0;
  const char* const end = device.data() + device.size();
  if (device.size() > kName.size()) std::from_chars(device.data() + kName.size() + 1, end, index);
  return index;
}

/// What a stage that is computed on a GPU with `room` bytes may use.
Result<model::SwapOptions> SwapBesideDevice(const api::SwarmJob& job, std::uint64_t stage,
                                            std::uint64_t stage_count, std::uint64_t room) {
  ASSIGN_OR_RETURN(const ParameterCounts counts, CountParameters(job, stage, stage_count));
  model::SwapOptions options = SwapOptionsOf(job);
  const api::SwapRoom chosen =
      api::ChooseSwapRoom(job, counts.trained, counts.frozen, SwapMemory(job), room);
  if (chosen.state_in_memory) options.scratch.clear();
  options.memory = chosen.memory;
  return options;
}

}  // namespace

Result<model::StageOptions> OptionsOnDevice(const api::SwarmJob& job, std::uint64_t stage,
                                            std::uint64_t stage_count, int threads,
                                            const std::string& device) {
  model::StageOptions options = OptionsOf(job, stage, stage_count, threads, device);
  ASSIGN_OR_RETURN(const api::ResidencyChoice choice,
                   FindResidency(job, stage, stage_count, device));
  options.residency = choice.residency;
  if (GpuOf(device) && choice.residency == api::Residency::kSwap) {
    ASSIGN_OR_RETURN(const std::uint64_t room, FreeDeviceMemory(device));
    ASSIGN_OR_RETURN(options.swap, SwapBesideDevice(job, stage, stage_count, room));
  }
  const bool there = GpuOf(device) && choice.residency == api::Residency::kResident;
  LOG_INFO("stage {} computes in {} on {}; masters and moments on the {}: {}", stage,
           swarm::NameOf(options.precision), device, there ? "device" : "host", choice.reason);
  return options;
}

namespace {

/// A stage that other replicas may serve, too.
Result<std::unique_ptr<model::Stage>> CreateReplica(const api::SwarmJob& job,
                                                    const protocol::Welcome& welcome, int threads,
                                                    const std::string& device,
                                                    const CreateStage& create) {
  ASSIGN_OR_RETURN(model::StageOptions options,
                   OptionsOnDevice(job, welcome.stage.value, welcome.stage_count, threads, device));
  options.divided = job.spec.pipeline.shardUpdate == api::ShardUpdate::kMoments;
  ASSIGN_OR_RETURN(auto made, create(options));
  if (const std::string memory = made->DescribeMemory(); !memory.empty()) {
    LOG_INFO("stage {} is swapped: {}", options.stage, memory);
  }
  return made;
}

}  // namespace

Result<std::uint64_t> FreeDeviceMemory(const std::string& device) {
  const std::optional<int> gpu = GpuOf(device);
  if (!gpu) return Unavailable(device + " has no memory of its own");
  return device::FreeCudaMemory(*gpu);
}

Result<device::CopyRates> MeasureDeviceCopies(const std::string& device, double seconds) {
  const std::optional<int> gpu = GpuOf(device);
  if (!gpu) return Unavailable(device + " has no memory of its own");
  ASSIGN_OR_RETURN(const auto opened, device::MakeCudaDevice(*gpu));
  return device::MeasureCopies(*opened, seconds);
}

Result<api::ResidencyChoice> FindResidency(const api::SwarmJob& job, std::uint64_t stage,
                                           std::uint64_t stage_count, const std::string& device) {
  if (!GpuOf(device)) return api::ChooseResidency(job, 0, 0, {});
  if (job.spec.pipeline.residency == api::Residency::kSwap) {
    return api::ResidencyChoice{api::Residency::kSwap, "the job says so"};
  }
  ASSIGN_OR_RETURN(const std::uint64_t room, FreeDeviceMemory(device));
  ASSIGN_OR_RETURN(const ParameterCounts counts, CountParameters(job, stage, stage_count));
  return api::ChooseResidency(job, counts.trained, counts.frozen, room);
}

std::uint64_t StateBytes(const api::SwarmJob& job, const model::Stage& stage) {
  std::uint64_t parameters = 0, frozen = 0;
  for (const model::ParameterGroup& group : stage.groups()) parameters += group.count;
  for (const model::ParameterSlot& slot : stage.frozen()) frozen += slot.count;
  if (job.spec.pipeline.residency == api::Residency::kSwap) return SwapMemory(job);
  return api::StateBytes(job.spec, parameters, frozen);
}

Status LoadInitialState(const api::SwarmJob& job, const StateSource& source,
                        protocol::Version version, model::Stage* stage) {
  if (!source.checkpoint_uri.empty()) {
    const std::vector<storage::Place> places =
        storage::InReadingOrder(storage::CheckpointPlaces(job.spec), source.reader);
    const std::string folder = storage::SplitLastName(source.checkpoint_uri).name;
    ASSIGN_OR_RETURN(const auto reader,
                     checkpoint::CheckpointReader::OpenNearest(places, folder, source.manifest));
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
                                                const protocol::Welcome& welcome,
                                                const storage::Reader& reader, int threads,
                                                const std::string& device,
                                                const CreateStage& create) {
  ASSIGN_OR_RETURN(auto stage, CreateReplica(job, welcome, threads, device, create));
  const StateSource source{welcome.checkpoint_uri, welcome.manifest, reader};
  RETURN_IF_ERROR(LoadInitialState(job, source, welcome.version, stage.get()));
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
