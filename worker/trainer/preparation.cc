#include "worker/trainer/preparation.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>

#include "api/format/enum_names.h"
#include "api/model/boundary.h"
#include "api/model/memory.h"
#include "api/parse.h"
#include "base/log.h"
#include "base/rng.h"
#include "planner/model_costs.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/model/layout/layout.h"
#include "worker/optim/schedule.h"
#include "worker/trainer/checkpoints/fence.h"
#include "worker/trainer/log/step_archive.h"

namespace swarm::trainer {
namespace {

double UnixEpoch() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(wall).count() - ToSeconds(Clock::now().time_since_epoch());
}

/// Which microbatches are audited, no worker can compute: the seed is in no message.
std::uint64_t DrawAuditSeed() {
  std::random_device random;
  return MixAll(random(), random(), random());
}

bool UsesBucket(const api::Spec& spec) {
  std::vector<std::string> uris = {spec.model.uri, spec.model.tokenizer.uri,
                                   spec.data.validationUri, spec.checkpoint.uri,
                                   spec.logging.tensorboard};
  for (const api::DataSource& source : spec.data.AllSources()) uris.push_back(source.uri);
  return std::ranges::any_of(uris, storage::IsBucket);
}

/// The part of a worker's numeric class that this job depends on (model/numeric_class.h).
std::vector<std::string> ProbesOf(const api::Spec& spec) {
  std::vector<std::string> probes{std::string(NameOf(spec.training.precision))};
  const api::BoundaryCodec codec = spec.pipeline.boundary.codec;
  if (api::IsLearned(codec)) probes.emplace_back(NameOf(codec));
  return probes;
}

bool MayPass(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded;
}

/// Waits; false if it was cancelled.
bool Pause(Duration duration, const std::stop_token& cancelled) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  return !never.wait_for(lock, cancelled, duration, [&] { return cancelled.stop_requested(); });
}

/// Repeats `prepare` while a bucket does not answer.
template <typename Prepare>
auto AwaitStorage(const TrainerOptions& options, Prepare prepare) -> decltype(prepare()) {
  const Timepoint begin = Clock::now();
  while (true) {
    auto result = prepare();
    const double waited = ToSeconds(Clock::now() - begin);
    if (!MayPass(result.status()) || !UsesBucket(options.job.spec)) return result;
    if (waited >= ToSeconds(options.storage_patience)) {
      return result.status().WithContext("the storage has not answered for " +
                                         std::to_string(static_cast<int>(waited)) + " s");
    }
    LOG_WARN("waiting for the storage, for {:.0f} s of at most {:.0f}: {}", waited,
             ToSeconds(options.storage_patience), result.status().message());
    if (!Pause(kStorageRetry, options.cancelled)) {
      return Cancelled("stopped while it waited for the storage");
    }
  }
}

Result<Beginning> PrepareStorage(const TrainerOptions& options, Preparation* p) {
  RETURN_IF_ERROR(ResolveModel(&p->job));
  ASSIGN_OR_RETURN(p->data, JobData::Open(p->job, options.storage_patience, options.region));
  const bool resume = options.resume || options.term.value > 1;
  // Taking the fence ends the trainer at work, so check first that this trainer may begin.
  ASSIGN_OR_RETURN(const Beginning found, FindBeginning(p->job, resume, Look::kManifest));
  for (const std::string& text : found.damaged) {
    LOG_WARN("a damaged checkpoint is set aside: {}", text);
  }
  api::SwarmJob resolved = p->job;
  RETURN_IF_ERROR(ResolveBoundary(&resolved, options.replicas.size(), found));
  const Status fenced = p->fence->Take();
  const bool refused = fenced.code() == StatusCode::kPermissionDenied ||
                       fenced.code() == StatusCode::kUnauthenticated ||
                       fenced.code() == StatusCode::kAborted;
  if (!fenced.ok() && (refused || (resume && MayPass(fenced)))) return fenced;
  if (!fenced.ok()) LOG_WARN("checkpoints cannot be written for now: {}", fenced.message());
  // Another trainer may have published a checkpoint before it met the fence.
  return FindBeginning(p->job, resume, Look::kManifest);
}

/// Fetches the lines that earlier trainers have written, on a machine that has none.
void RestoreSteps(const TrainerOptions& options, const Beginning& beginning) {
  const api::Spec& spec = options.job.spec;
  const std::filesystem::path path = options.out_dir + "/steps.jsonl";
  std::error_code error;
  if (std::filesystem::exists(path, error)) return;
  const bool take_over = options.term.value > 1;
  if (!take_over && beginning.version.value == 0) return;
  auto storage = storage::Storage::Open(spec.checkpoint.uri, spec.storage);
  const auto steps = storage.ok() ? ReadSteps(**storage) : storage.status();
  if (!steps.ok()) {
    LOG_WARN("steps.jsonl lacks the steps before this start, because they cannot be read: {}",
             steps.status().message());
    return;
  }
  std::filesystem::create_directories(options.out_dir, error);
  std::ofstream out(path, std::ios::binary);
  for (const auto& [step, line] : *steps) out << line << "\n";
}

/// Of the stages' own groups; empty if every replica updates the whole stage.
Result<std::vector<std::vector<std::uint64_t>>> PartSizes(const api::Spec& spec,
                                                          std::size_t stages) {
  std::vector<std::vector<std::uint64_t>> sizes;
  if (spec.pipeline.shardUpdate == api::ShardUpdate::kNone) return sizes;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    ASSIGN_OR_RETURN(const model::Layout layout,
                     model::ComputeParameterLayout(spec.model.config, stage, stages,
                                                   spec.pipeline.boundary, spec.model.lora));
    sizes.emplace_back();
    for (const model::ParameterSlot& slot : layout.slots) {
      if (slot.group == 0) sizes.back().push_back(slot.count);
    }
  }
  return sizes;
}

/// How the regions of workers count in who serves what.
Result<protocol::RegionRule> RegionsOf(const api::Spec& spec, std::size_t stages,
                                       std::uint64_t microbatches) {
  constexpr double kStateBytes = 12;  // of a parameter: weight and two moments
  const planner::BoundaryTraffic traffic =
      planner::TrafficOf(spec.pipeline.boundary, spec.model.config.hidden_size,
                         spec.training.microbatchSize * spec.training.sequenceLength);
  protocol::RegionRule rule{.survive_loss = spec.pipeline.surviveRegionLoss,
                            .boundary_bytes = traffic.forward + traffic.backward};
  for (std::size_t stage = 0; stage < stages; ++stage) {
    ASSIGN_OR_RETURN(const model::Layout layout,
                     model::ComputeParameterLayout(spec.model.config, stage, stages,
                                                   spec.pipeline.boundary, spec.model.lora));
    double elements = 0;
    for (const model::ParameterSlot& slot : layout.slots) {
      elements += static_cast<double>(slot.count);
    }
    rule.sum_bytes.push_back(elements * planner::ReduceBytes(spec.training) /
                             static_cast<double>(microbatches));
    rule.state_bytes.push_back(elements * kStateBytes);
  }
  return rule;
}

}  // namespace

Result<Preparation> Prepare(const TrainerOptions& options) {
  Preparation p;
  p.job = options.job;
  p.fence = std::make_unique<CheckpointFence>(p.job.spec, options.job_uid, options.term);
  ASSIGN_OR_RETURN(p.beginning, AwaitStorage(options, [&] { return PrepareStorage(options, &p); }));
  RETURN_IF_ERROR(ResolveBoundary(&p.job, options.replicas.size(), p.beginning));
  const api::Spec& spec = p.job.spec;
  const JobData* data = p.data.get();  // lives as long as the coordinator, in the trainer
  protocol::CoordinatorOptions& coordinator = p.coordinator;
  coordinator = {
      .term = options.term,
      .take_over = options.term.value > 1,
      .replicas = options.replicas,
      .microbatches = p.job.microbatches(),
      .in_flight = {.most = api::InFlightMax(spec), .least = api::TasksTogether(spec)},
      .max_steps = spec.training.maxSteps,
      .delayed = spec.training.overlaps_steps(),
      .tied_head = spec.model.trains_tied_head(),
      .shared_basis = api::HasTurningBasis(spec.pipeline.boundary),
      .exact = spec.training.accumulation == api::Accumulation::kExact,
      .part_sizes = {},
      .probes = ProbesOf(spec),
      .max_grad_norm = spec.training.maxGradNorm,
      .seed = spec.training.seed,
      .audit_fraction = spec.training.audit.fraction,
      .audit_seed = DrawAuditSeed(),
      .learning_rate =
          [spec](protocol::Step step) {
            return optim::LearningRate(step.value, spec.optimizer, spec.schedule,
                                       spec.training.maxSteps);
          },
      .counted_part = [data](protocol::Step step) { return data->CountedPart(step.value); },
      .job_json = api::ToJsonText(p.job, api::Defaults::kLeftOut),
      .checkpoint_interval_steps = spec.checkpoint.intervalSteps,
      .checkpoint_uri = spec.checkpoint.uri,
      // A bucket may come back; a disk that is full stays so.
      .last_checkpoint_patience = storage::LocalPath(spec.checkpoint.uri).empty()
                                      ? options.storage_patience
                                      : Duration::zero(),
      .validation_interval_steps = spec.training.validationIntervalSteps,
      .validation_microbatches = data->validation_microbatches(),
      .validation_counted_part = data->ValidationCountedPart(),
      .balance = options.balance,
      .keep_workers = options.keep_workers,
      .unix_epoch = UnixEpoch()};
  ASSIGN_OR_RETURN(coordinator.part_sizes, PartSizes(spec, options.replicas.size()));
  ASSIGN_OR_RETURN(coordinator.regions,
                   RegionsOf(spec, options.replicas.size(), p.job.microbatches()));
  coordinator.generation = p.beginning.generation;
  coordinator.first_version = p.beginning.version;
  coordinator.resume_uri = p.beginning.checkpoint_uri;
  coordinator.resume_manifest = p.beginning.manifest;
  if (!coordinator.resume_uri.empty()) {
    LOG_INFO("going on from version {} in {}", p.beginning.version.value, coordinator.resume_uri);
  }
  ASSIGN_OR_RETURN(auto out, storage::Storage::Open(options.out_dir));
  auto out_fence = Fence::Make(std::move(out), options.job_uid, options.term);
  if (out_fence.status().code() == StatusCode::kAborted) return out_fence.status();
  std::shared_ptr<Fence> fence = out_fence.ok() ? std::move(*out_fence) : nullptr;
  const std::string beside = std::filesystem::absolute(options.out_dir).lexically_normal();
  if (!spec.checkpoint.uri.empty() &&
      !storage::LocalPath(spec.checkpoint.uri).starts_with(beside)) {
    p.keeps_steps_apart = true;
    RestoreSteps(options, p.beginning);
  }
  ASSIGN_OR_RETURN(p.log, RunLog::Open(options.out_dir,
                                       coordinator.take_over ? RunLog::kKeepAll
                                                             : coordinator.first_version.value,
                                       [fence] { return fence ? fence->Check() : Status(); }));
  if (options.trace_progress) RETURN_IF_ERROR(p.log->TraceProgress());
  return p;
}

}  // namespace swarm::trainer
