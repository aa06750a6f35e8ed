// From a job and a welcome to a stage with its state, and from a stage's state to files.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "api/model/residency.h"
#include "api/swarmjob.h"
#include "worker/checkpoint/tensor.h"
#include "worker/device/copy_rate.h"
#include "worker/model/stage.h"
#include "worker/protocol/messages/control.h"
#include "worker/stage/join/piece_fetch.h"
#include "worker/storage/places.h"

namespace swarm::stage {

/// Makes a stage without a state: model::Stage::Create, or its replacement in an experiment.
using CreateStage =
    std::function<Result<std::unique_ptr<model::Stage>>(const model::StageOptions&)>;

/// For the state that a joiner receives: of the process, or where the stage is swapped, a scratch
/// file's.
MakeMemory MemoryForState(const api::SwarmJob& job);

/// For a worker that may use so many bytes of its machine, because others share it (0: of all that
/// the process may use): how much of them a swapped stage takes, where the job does not say it.
void FillInHostMemory(std::uint64_t memory, api::SwarmJob* job);

/// The options of stage `stage` of `stage_count` of the job.
model::StageOptions OptionsOf(const api::SwarmJob& job, std::uint64_t stage,
                              std::uint64_t stage_count, int threads, const std::string& device);

/// The same with the residency and the memory that the device has room for, which it logs. Errors:
/// as FindResidency.
Result<model::StageOptions> OptionsOnDevice(const api::SwarmJob& job, std::uint64_t stage,
                                            std::uint64_t stage_count, int threads,
                                            const std::string& device);

/// Where the masters and moments of the stage will be on that device, by what it has room for.
/// Errors: kResourceExhausted (no room), kUnavailable (no such device), kInvalidArgument (as
/// model::Stage::Create).
Result<api::ResidencyChoice> FindResidency(const api::SwarmJob& job, std::uint64_t stage,
                                           std::uint64_t stage_count, const std::string& device);

/// Bytes that are free on the device, "cuda:N". Errors: kUnavailable (no such device).
Result<std::uint64_t> FreeDeviceMemory(const std::string& device);

/// How fast bytes cross to the device, "cuda:N", and back, measured for about so many seconds each.
/// Errors: as FreeDeviceMemory, and those of the device.
Result<device::CopyRates> MeasureDeviceCopies(const std::string& device, double seconds);

/// About the bytes that a stage of the job needs to be served, besides the account of memory: its
/// weights, optimizer, accumulators, fresh gradients and the sums being made.
std::uint64_t StateBytes(const api::SwarmJob& job, const model::Stage& stage);

/// The state that a job begins with.
struct StateSource {
  std::string checkpoint_uri = {};  ///< of the checkpoint at home; empty: the initial weights
  Digest manifest = {};             ///< as protocol::Welcome::manifest
  storage::Reader reader = {};      ///< takes the nearest copy
};

/// Fills a stage with the state at `version`. Errors: those of model and state.
Status LoadInitialState(const api::SwarmJob& job, const StateSource& source,
                        protocol::Version version, model::Stage* stage);

/// The stage that `welcome` asks for, ready to execute, on this worker.
Result<std::unique_ptr<model::Stage>> LoadStage(const api::SwarmJob& job,
                                                const protocol::Welcome& welcome,
                                                const storage::Reader& reader, int threads,
                                                const std::string& device,
                                                const CreateStage& create);

/// The same with a state that was copied from other replicas.
Result<std::unique_ptr<model::Stage>> TakeStage(const api::SwarmJob& job,
                                                const protocol::Welcome& welcome,
                                                const checkpoint::TensorLookup& tensors,
                                                int threads, const std::string& device,
                                                const CreateStage& create);

/// Writes a stage's part of a checkpoint.
Result<std::vector<protocol::CheckpointFile>> WriteStage(
    const api::SwarmJob& job, const protocol::WriteCheckpoint& request,
    const protocol::Welcome& welcome, const std::vector<checkpoint::NamedTensor>& tensors);

}  // namespace swarm::stage
