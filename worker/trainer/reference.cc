#include "worker/trainer/reference.h"

#include <algorithm>
#include <deque>
#include <future>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/optim/schedule.h"
#include "worker/protocol/commit.h"
#include "worker/stage/load.h"
#include "worker/stage/reduce/norms.h"
#include "worker/trainer/checkpoints/beginning.h"
#include "worker/trainer/checkpoints/publish.h"
#include "worker/trainer/job_data.h"
#include "worker/trainer/log/run_log.h"
#include "worker/trainer/log/tensorboard.h"

namespace swarm::trainer {
namespace {

using protocol::Step;
using protocol::TaskKey;
using protocol::Version;

/// Microbatches that a stage has at once: its device computes one while the host prepares the next.
constexpr std::uint64_t kUnderWayMax = 2;

/// Microbatches that pass the stages together.
struct Microbatches {
  std::vector<TaskKey> keys;
  std::vector<std::vector<std::int32_t>> ids;
};

/// Results of calls that take a Done, in the order of the calls.
template <typename T>
class Results {
 public:
  model::Done<T> Next() {
    const auto promise = std::make_shared<std::promise<Result<T>>>();
    under_way_.push_back(promise->get_future());
    return [promise](Result<T> result) { promise->set_value(std::move(result)); };
  }
  /// What Next gave promises to, as it comes.
  std::vector<std::future<Result<T>>> Take() { return std::move(under_way_); }
  /// The same when all are there, or the first error.
  Result<std::vector<T>> Await() {
    std::vector<T> all;
    for (auto& result : Take()) {
      ASSIGN_OR_RETURN(all.emplace_back(), result.get());
    }
    return all;
  }

 private:
  std::vector<std::future<Result<T>>> under_way_;
};

/// A group's sum over the stages that hold it.
struct ReducedGroup {
  protocol::GroupIndex index;
  model::GradientSum sum;
  std::vector<protocol::TensorNorm> norms;
};

/// Adds `part` to the sum of another stage: of integers, as only exact accumulation cuts the model.
void AddTo(model::GradientSum& sum, const model::GradientSum& part) {
  SWARM_CHECK(part.type == checkpoint::ElementType::kI64, "float sums of several stages");
  sum.elements = Bytes::Make(part.elements.size(), [&](std::byte* memory) {
    auto* to = reinterpret_cast<std::int64_t*>(memory);
    const auto* a = reinterpret_cast<const std::int64_t*>(sum.elements.data());
    const auto* b = reinterpret_cast<const std::int64_t*>(part.elements.data());
    for (std::size_t i = 0; i < part.elements.size() / sizeof *to; ++i) to[i] = a[i] + b[i];
  });
  sum.finite = sum.finite && part.finite;
}

std::vector<ReducedGroup> ReduceGroups(std::span<const std::unique_ptr<model::Stage>> stages,
                                       Step step) {
  std::vector<ReducedGroup> groups;
  for (const auto& stage : stages) {
    for (std::uint64_t i = 0; i < stage->groups().size(); ++i) {
      const protocol::GroupIndex index = stage->groups()[i].index;
      const model::GradientSum part = stage->Accumulator(step, i);
      auto group = std::ranges::find(groups, index, &ReducedGroup::index);
      if (group == groups.end()) {
        group = groups.insert(groups.end(), {index, part, {}});
      } else {
        AddTo(group->sum, part);
      }
      group->norms = stage::ComputeTensorNorms(*stage, step, i, group->sum, group->sum.elements);
    }
  }
  std::ranges::sort(groups, {}, &ReducedGroup::index);
  return groups;
}

/// One run of the reference; holds what its parts share.
class Reference {
 public:
  explicit Reference(const ReferenceOptions& options) : options_(options), job_(options.job) {}

  Status Run();

 private:
  const api::Spec& spec() const { return job_.spec; }
  bool delayed() const { return spec().training.overlaps_steps(); }
  Status Prepare();
  Result<protocol::CommitRecord> TrainStep(std::uint64_t step);
  /// Computes all microbatches and folds their gradients. Returns their losses.
  Result<std::vector<double>> RunMicrobatches(std::uint64_t step);
  using Forwarded = std::future<Result<model::ForwardResult>>;
  /// Folds the gradients of `count` microbatches. The losses come when they are there; of several
  /// stages at once. An error of the device may come with them.
  Result<std::vector<Forwarded>> BeginMicrobatches(std::uint64_t step, std::uint64_t first,
                                                   std::uint64_t count);
  /// Hands them to the only stage, and waits for nothing but what it collects.
  Result<std::vector<Forwarded>> SubmitMicrobatches(const Microbatches& microbatches);
  /// Lets the stages compute them one after the other.
  Result<std::vector<Forwarded>> PassMicrobatches(Microbatches microbatches);
  Status Fold(std::size_t stage, const TaskKey& key);
  /// The version that a step reads.
  Version VersionOf(Step step) const {
    return Version(delayed() && step.value > 0 ? step.value - 1 : step.value);
  }
  /// What the last stage gives.
  Result<std::vector<model::ForwardResult>> Forward(Microbatches& microbatches, Version version,
                                                    bool keep_graph);
  model::TokenBatch TokensOf(const Microbatches& microbatches, std::size_t i) const {
    return {data_->sequences(), data_->tokens_per_sequence(), microbatches.ids[i]};
  }
  /// Begins the step anew at a higher scale level, in the stage and in those that share a group
  /// with it.
  Status RaiseScaleLevel(std::size_t stage, Step step);
  Status Commit(protocol::CommitRecord* record, const std::vector<double>& losses);
  /// The same where the sums of the only stage can stay on its device.
  Status CommitOwn(protocol::CommitRecord* record, protocol::CommitInputs inputs);
  Status Validate();
  Status WriteCheckpoint();
  /// Writes the points for TensorBoard, at most once in kEventPeriod unless `now`.
  void WriteCurves(bool now);

  const ReferenceOptions& options_;
  api::SwarmJob job_;
  std::unique_ptr<JobData> data_;
  std::unique_ptr<storage::Storage> storage_;
  /// The cuts of the swarm where results depend on them (exact accumulation), else one stage.
  std::vector<std::unique_ptr<model::Stage>> stages_;
  std::uint64_t together_ = 1;  ///< microbatches that pass the stages together, at most
  std::optional<std::size_t> out_of_range_;  ///< the stage whose last fold failed so
  std::unique_ptr<RunLog> log_;
  EventBuffer points_;
  std::optional<EventFiles> curves_;
  Timepoint curves_written_;
  protocol::Generation generation_;
};

Status Reference::Prepare() {
  RETURN_IF_ERROR(ResolveModel(&job_));
  ASSIGN_OR_RETURN(data_, JobData::Open(job_, std::chrono::minutes(10)));
  ASSIGN_OR_RETURN(const Beginning beginning, FindBeginning(job_, options_.resume, Look::kFiles));
  RETURN_IF_ERROR(ResolveBoundary(&job_, spec().pipeline.stages, beginning));
  generation_ = beginning.generation;
  if (!spec().checkpoint.uri.empty()) {
    ASSIGN_OR_RETURN(storage_, storage::Storage::Open(spec().checkpoint.uri, spec().storage));
  }
  if (!options_.out_dir.empty()) {
    ASSIGN_OR_RETURN(log_, RunLog::Open(options_.out_dir, beginning.version.value));
  }
  if (!spec().logging.tensorboard.empty()) {
    curves_.emplace(spec().logging.tensorboard, spec().storage);
  }
  const bool cut = spec().training.accumulation == api::Accumulation::kExact;
  const std::uint64_t stages = cut ? spec().pipeline.stages : 1;
  for (std::uint64_t s = 0; s < stages; ++s) {
    ASSIGN_OR_RETURN(const model::StageOptions stage_options,
                     stage::OptionsOnDevice(job_, s, stages, options_.threads, options_.device));
    ASSIGN_OR_RETURN(auto stage, model::Stage::Create(stage_options));
    RETURN_IF_ERROR(
        stage::LoadInitialState(job_, {beginning.checkpoint_uri, beginning.manifest, /*reader=*/{}},
                                beginning.version, stage.get()));
    together_ = std::max<std::uint64_t>(together_, stage->tasks_together());
    stages_.push_back(std::move(stage));
  }
  return Status();
}

Result<std::vector<model::ForwardResult>> Reference::Forward(Microbatches& microbatches,
                                                             Version version, bool keep_graph) {
  std::vector<model::ForwardResult> results(microbatches.keys.size());
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    Results<model::ForwardResult> submitted;
    for (std::size_t i = 0; i < results.size(); ++i) {
      microbatches.keys[i].stage = protocol::StageIndex(s);
      stages_[s]->SubmitForward(microbatches.keys[i], version, TokensOf(microbatches, i),
                                results[i].boundary, keep_graph, submitted.Next());
    }
    while (stages_[s]->Work()) {
    }
    ASSIGN_OR_RETURN(results, submitted.Await());
  }
  return results;
}

Result<std::vector<Reference::Forwarded>> Reference::BeginMicrobatches(std::uint64_t step,
                                                                       std::uint64_t first,
                                                                       std::uint64_t count) {
  Microbatches microbatches;
  for (std::uint64_t m = first; m < first + count; ++m) {
    microbatches.keys.push_back({generation_, Step(step), protocol::Microbatch(m), {}, {}});
    ASSIGN_OR_RETURN(microbatches.ids.emplace_back(), data_->Await(data_->Draw(step, m)));
  }
  if (stages_.size() == 1) return SubmitMicrobatches(microbatches);
  return PassMicrobatches(std::move(microbatches));
}

Result<std::vector<Reference::Forwarded>> Reference::SubmitMicrobatches(
    const Microbatches& microbatches) {
  model::Stage& stage = *stages_.front();
  Results<model::ForwardResult> forwards;
  Results<model::BackwardResult> backwards;
  for (std::size_t i = 0; i < microbatches.keys.size(); ++i) {
    const TaskKey& key = microbatches.keys[i];
    stage.SubmitForward(key, VersionOf(key.step), TokensOf(microbatches, i), Bytes(),
                        /*keep_graph=*/true, forwards.Next());
    stage.SubmitBackward(key, Bytes(), backwards.Next());
  }
  while (stage.Work()) {
  }
  for (const TaskKey& key : microbatches.keys) {
    const Status folded = Fold(0, key);
    if (folded.code() == StatusCode::kNotFound) {
      // There is nothing to fold, and one of these says why.
      RETURN_IF_ERROR(forwards.Await().status());
      RETURN_IF_ERROR(backwards.Await().status());
    }
    RETURN_IF_ERROR(folded);
  }
  return forwards.Take();
}

Result<std::vector<Reference::Forwarded>> Reference::PassMicrobatches(Microbatches microbatches) {
  const Version version = VersionOf(microbatches.keys.front().step);
  ASSIGN_OR_RETURN(const std::vector<model::ForwardResult> forwarded,
                   Forward(microbatches, version, /*keep_graph=*/true));
  std::vector<model::BackwardResult> gradients(microbatches.keys.size());
  for (std::size_t s = stages_.size(); s-- > 0;) {
    Results<model::BackwardResult> submitted;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      microbatches.keys[i].stage = protocol::StageIndex(s);
      stages_[s]->SubmitBackward(microbatches.keys[i], gradients[i].gradient, submitted.Next());
    }
    while (stages_[s]->Work()) {
    }
    ASSIGN_OR_RETURN(gradients, submitted.Await());
    for (const TaskKey& key : microbatches.keys) RETURN_IF_ERROR(Fold(s, key));
  }
  Results<model::ForwardResult> there;
  for (const model::ForwardResult& result : forwarded) there.Next()(result);
  return there.Take();
}

Status Reference::Fold(std::size_t stage, const TaskKey& key) {
  const Status folded = stages_[stage]->Fold(key);
  if (folded.code() == StatusCode::kOutOfRange) out_of_range_ = stage;
  return folded;
}

Status Reference::RaiseScaleLevel(std::size_t stage, Step step) {
  const unsigned level = stages_[stage]->ScaleLevel(step) + 1;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const bool shares = std::ranges::any_of(stages_[s]->groups(), [&](const auto& group) {
      return std::ranges::find(stages_[stage]->groups(), group.index,
                               &model::ParameterGroup::index) != stages_[stage]->groups().end();
    });
    const unsigned new_level = shares ? level : stages_[s]->ScaleLevel(step);
    stages_[s]->ReleaseStep(step);
    RETURN_IF_ERROR(stages_[s]->SetScaleLevel(step, new_level));
  }
  return Status();
}

Result<std::vector<double>> Reference::RunMicrobatches(std::uint64_t step) {
  std::vector<double> losses;
  std::deque<Forwarded> under_way;
  const std::uint64_t under_way_max = std::max(kUnderWayMax, together_);
  while (losses.size() < job_.microbatches()) {
    const std::uint64_t next = losses.size() + under_way.size();
    const std::uint64_t count = std::min(together_, job_.microbatches() - next);
    if (count == 0 || under_way.size() + count > under_way_max) {
      ASSIGN_OR_RETURN(const model::ForwardResult result, under_way.front().get());
      losses.push_back(result.loss);
      under_way.pop_front();
      continue;
    }
    Result<std::vector<Forwarded>> begun = BeginMicrobatches(step, next, count);
    if (begun.ok()) {
      std::ranges::move(*begun, std::back_inserter(under_way));
      continue;
    }
    const auto stage = std::exchange(out_of_range_, std::nullopt);
    if (!stage) return begun.status();
    LOG_INFO("{}", begun.status().message());
    RETURN_IF_ERROR(RaiseScaleLevel(*stage, Step(step)));
    losses.clear();
    under_way.clear();
  }
  return losses;
}

Status Reference::CommitOwn(protocol::CommitRecord* record, protocol::CommitInputs inputs) {
  model::Stage& stage = *stages_.front();
  for (std::uint64_t i = 0; i < stage.groups().size(); ++i) {
    ASSIGN_OR_RETURN(const std::vector<double> norms, stage.OwnNorms(record->step, i));
    protocol::GroupReport report{{stage.groups()[i].index, {}, {}}, {}};
    for (const model::ParameterSlot& slot : stage.SumSlots(record->step, i)) {
      report.norms.push_back({slot.name, norms.at(report.norms.size())});
    }
    inputs.groups.push_back(std::move(report));
  }
  *record = protocol::DecideCommit(inputs);
  RETURN_IF_ERROR(stage.ApplyOwn(record->clip, record->learning_rate, record->skip));
  stage.ReleaseStep(record->step);
  return Status();
}

Status Reference::Commit(protocol::CommitRecord* record, const std::vector<double>& losses) {
  const Step step = record->step;
  protocol::CommitInputs inputs{
      generation_,
      step,
      {},
      losses,
      spec().training.maxGradNorm,
      optim::LearningRate(step.value, spec().optimizer, spec().schedule, spec().training.maxSteps),
      data_->CountedPart(step.value)};
  if (stages_.size() == 1 && stages_.front()->AppliesOwn()) {
    return CommitOwn(record, std::move(inputs));
  }
  const std::vector<ReducedGroup> groups = ReduceGroups(stages_, step);
  for (const ReducedGroup& group : groups) {
    inputs.groups.push_back({{group.index, {}, {}}, group.norms});
  }
  *record = protocol::DecideCommit(inputs);
  for (const auto& stage : stages_) {
    std::vector<Bytes> sums;
    for (const model::ParameterGroup& group : stage->groups()) {
      sums.push_back(std::ranges::find(groups, group.index, &ReducedGroup::index)->sum.elements);
    }
    RETURN_IF_ERROR(stage->Apply(sums, record->clip, record->learning_rate, record->skip));
    stage->ReleaseStep(step);
  }
  return Status();
}

Result<protocol::CommitRecord> Reference::TrainStep(std::uint64_t step) {
  ASSIGN_OR_RETURN(const std::vector<double> losses, RunMicrobatches(step));
  protocol::CommitRecord record{.step = Step(step)};
  RETURN_IF_ERROR(Commit(&record, losses));
  return record;
}

Status Reference::Validate() {
  const Version version = stages_.front()->version();
  double sum = 0;
  for (std::uint64_t m = 0; m < data_->validation_microbatches();) {
    Microbatches microbatches;
    for (; m < data_->validation_microbatches() && microbatches.keys.size() < together_; ++m) {
      microbatches.keys.push_back(
          {generation_, Step(version.value), protocol::Microbatch(m), {}, {}});
      ASSIGN_OR_RETURN(microbatches.ids.emplace_back(),
                       data_->Await(data_->ValidationSequences(m)));
    }
    ASSIGN_OR_RETURN(const auto results, Forward(microbatches, version, /*keep_graph=*/false));
    for (const model::ForwardResult& result : results) sum += result.loss;
  }
  const double loss =
      sum / static_cast<double>(data_->validation_microbatches()) / data_->ValidationCountedPart();
  if (log_) log_->Validation(version, loss);
  if (curves_) points_.Validation(version, loss, UnixSeconds());
  if (options_.on_validation) options_.on_validation(loss);
  return Status();
}

Status Reference::WriteCheckpoint() {
  if (!storage_) return Status();
  const checkpoint::CheckpointId id{generation_, stages_.front()->version()};
  std::vector<protocol::CheckpointFile> files;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    ASSIGN_OR_RETURN(const auto written,
                     checkpoint::WriteStageFiles(*storage_, id.Folder(), s, stages_.size(),
                                                 stages_[s]->State()));
    files.insert(files.end(), written.begin(), written.end());
  }
  return PublishCheckpoint(*storage_, job_, data_->tokenizer(),
                           {.generation = generation_,
                            .version = id.version,
                            .stage_count = stages_.size(),
                            .files = files});
}

void Reference::WriteCurves(bool now) {
  const Timepoint time = Clock::now();
  if (!curves_ || (!now && time - curves_written_ < kEventPeriod)) return;
  curves_written_ = time;
  const Status status = curves_->Append(points_.Take(), UnixSeconds());
  if (!status.ok()) LOG_WARN("the curves for TensorBoard: {}", status.message());
}

Status Reference::Run() {
  RETURN_IF_ERROR(Prepare());
  const std::uint64_t tokens = spec().training.globalBatchSize * spec().training.sequenceLength;
  for (std::uint64_t step = stages_.front()->version().value; step < spec().training.maxSteps;
       ++step) {
    const Timepoint begin = Clock::now();
    ASSIGN_OR_RETURN(const protocol::CommitRecord record, TrainStep(step));
    const double seconds = ToSeconds(Clock::now() - begin);
    if (log_) log_->Step({record, tokens, seconds, 0});
    if (curves_) points_.Step({record, tokens, seconds, 0}, UnixSeconds());
    const bool go_on = !options_.on_step || options_.on_step(record, seconds);
    const bool last = step + 1 == spec().training.maxSteps;
    const auto due = [&](std::uint64_t interval) {
      return last || (interval > 0 && (step + 1) % interval == 0);
    };
    if (data_->validation_microbatches() > 0 && due(spec().training.validationIntervalSteps)) {
      RETURN_IF_ERROR(Validate());
    }
    WriteCurves(!go_on || due(spec().checkpoint.intervalSteps));
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
