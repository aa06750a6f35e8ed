#include "worker/trainer/reference.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/llama_config.h"
#include "base/log.h"
#include "base/time.h"
#include "worker/optim/schedule.h"
#include "worker/protocol/commit.h"
#include "worker/stage/load.h"
#include "worker/stage/norms.h"
#include "worker/state/checkpoint.h"
#include "worker/trainer/beginning.h"
#include "worker/trainer/job_data.h"
#include "worker/trainer/run_log.h"

namespace swarm::trainer {
namespace {

using protocol::Step;
using protocol::TaskKey;
using protocol::Version;

/// One run of the reference; a struct of what its parts share.
class Reference {
 public:
  explicit Reference(const ReferenceOptions& options) : options_(options), job_(options.job) {}

  Status Run();

 private:
  const api::Spec& spec() const { return job_.spec; }
  bool delayed() const { return spec().training.stepMode == api::StepMode::kDelayed; }
  Status Prepare();
  Result<protocol::CommitRecord> TrainStep(std::uint64_t step);
  Result<double> RunMicrobatch(std::uint64_t step, std::uint64_t microbatch);
  Status Commit(protocol::CommitRecord* record, const std::vector<double>& losses);
  Status Validate();
  Status WriteCheckpoint();

  const ReferenceOptions& options_;
  api::SwarmJob job_;
  std::unique_ptr<JobData> data_;
  std::unique_ptr<state::Storage> storage_;
  std::unique_ptr<model::Stage> stage_;
  std::unique_ptr<RunLog> log_;
  protocol::Generation generation_;
};

Status Reference::Prepare() {
  RETURN_IF_ERROR(ResolveModel(&job_));
  ASSIGN_OR_RETURN(data_, JobData::Open(job_));
  ASSIGN_OR_RETURN(const Beginning beginning, FindBeginning(job_, options_.resume));
  generation_ = beginning.generation;
  if (!spec().checkpoint.uri.empty()) {
    ASSIGN_OR_RETURN(storage_, state::Storage::Open(spec().checkpoint.uri, spec().storage));
  }
  if (!options_.out_dir.empty()) {
    ASSIGN_OR_RETURN(log_, RunLog::Open(options_.out_dir, beginning.version.value));
  }
  ASSIGN_OR_RETURN(stage_,
                   model::Stage::Create(stage::OptionsOf(job_, 0, 1, options_.threads, "cpu")));
  return stage::LoadInitialState(job_, beginning.checkpoint_uri, beginning.version, stage_.get());
}

Result<double> Reference::RunMicrobatch(std::uint64_t step, std::uint64_t microbatch) {
  const TaskKey key{generation_, Step(step), protocol::Microbatch(microbatch), {}, {}};
  const Version version(delayed() && step > 0 ? step - 1 : step);
  const auto ids = data_->Microbatch(step, microbatch);
  ASSIGN_OR_RETURN(
      const auto forward,
      stage_->Forward(key, version, {data_->sequences(), data_->tokens_per_sequence(), ids}, {},
                      /*keep_graph=*/true));
  const auto backward = stage_->Backward(key, {});
  if (!backward.ok()) return backward.status();
  RETURN_IF_ERROR(stage_->Fold(key));
  return forward.loss;
}

Status Reference::Commit(protocol::CommitRecord* record, const std::vector<double>& losses) {
  const Step step = record->step;
  protocol::CommitInputs inputs{
      generation_,
      step,
      {},
      losses,
      spec().training.maxGradNorm,
      optim::LearningRate(step.value, spec().optimizer, spec().schedule, spec().training.maxSteps)};
  std::vector<std::span<const float>> gradients;
  for (std::uint64_t i = 0; i < stage_->groups().size(); ++i) {
    gradients.push_back(stage_->Accumulator(step, i));
    inputs.groups.push_back({{stage_->groups()[i].index, {}, {}},
                             stage::ComputeTensorNorms(*stage_, i, gradients.back())});
  }
  *record = protocol::DecideCommit(inputs);
  RETURN_IF_ERROR(stage_->Apply(gradients, record->clip, record->learning_rate, record->skip));
  stage_->ReleaseStep(step);
  return Status();
}

Result<protocol::CommitRecord> Reference::TrainStep(std::uint64_t step) {
  std::vector<double> losses;
  for (std::uint64_t m = 0; m < job_.microbatches(); ++m) {
    ASSIGN_OR_RETURN(const double loss, RunMicrobatch(step, m));
    losses.push_back(loss);
  }
  protocol::CommitRecord record{.step = Step(step)};
  RETURN_IF_ERROR(Commit(&record, losses));
  return record;
}

Status Reference::Validate() {
  const Version version = stage_->version();
  double sum = 0;
  for (std::uint64_t m = 0; m < data_->validation_microbatches(); ++m) {
    const auto ids = data_->ValidationMicrobatch(m);
    const TaskKey key{generation_, Step(version.value), protocol::Microbatch(m), {}, {}};
    ASSIGN_OR_RETURN(
        const auto result,
        stage_->Forward(key, version, {data_->sequences(), data_->tokens_per_sequence(), ids}, {},
                        /*keep_graph=*/false));
    sum += result.loss;
  }
  const double loss = sum / static_cast<double>(data_->validation_microbatches());
  if (log_) log_->Validation(version, loss);
  if (options_.on_validation) options_.on_validation(loss);
  return Status();
}

Status Reference::WriteCheckpoint() {
  if (!storage_) return Status();
  const state::CheckpointId id{generation_, stage_->version()};
  ASSIGN_OR_RETURN(const auto files,
                   state::WriteStageFiles(*storage_, id.Folder(), 0, 1, stage_->Snapshot()));
  RETURN_IF_ERROR(state::PublishManifest(
      *storage_, {.job_name = job_.name,
                  .generation = generation_,
                  .version = id.version,
                  .seed = spec().training.seed,
                  .stage_count = 1,
                  .previous = delayed() && id.version.value > 0,
                  .config_json = api::LlamaConfigToJson(spec().model.config).dump(),
                  .files = files}));
  const auto removed = state::RemoveOld(*storage_, spec().checkpoint.keepLast);
  if (!removed.ok()) LOG_WARN("old checkpoints stay: {}", removed.status().message());
  return Status();
}

Status Reference::Run() {
  RETURN_IF_ERROR(Prepare());
  const std::uint64_t tokens = spec().training.globalBatchSize * spec().training.sequenceLength;
  for (std::uint64_t step = stage_->version().value; step < spec().training.maxSteps; ++step) {
    const Timepoint begin = Clock::now();
    ASSIGN_OR_RETURN(const protocol::CommitRecord record, TrainStep(step));
    const double seconds = ToSeconds(Clock::now() - begin);
    if (log_) log_->Step({record, tokens, seconds, 0});
    const bool go_on = !options_.on_step || options_.on_step(record, seconds);
    const bool last = step + 1 == spec().training.maxSteps;
    const auto due = [&](std::uint64_t interval) {
      return last || (interval > 0 && (step + 1) % interval == 0);
    };
    if (data_->validation_microbatches() > 0 && due(spec().training.validationIntervalSteps)) {
      RETURN_IF_ERROR(Validate());
    }
    if (!go_on || due(spec().checkpoint.intervalSteps)) {
      const Status status =
          WriteCheckpoint().WithContext("the checkpoint of version " + std::to_string(step + 1));
      if (!go_on || last) return status;
      if (!status.ok()) LOG_WARN("{}", status.message());
    }
  }
  return Status();
}

}  // namespace

Status TrainReference(const ReferenceOptions& options) { return Reference(options).Run(); }

}  // namespace swarm::trainer
