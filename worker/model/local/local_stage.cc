#include "worker/model/local/local_stage.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <utility>

#include "api/model/boundary.h"
#include "worker/model/exact_sums.h"
#include "worker/model/local/outer.h"
#include "worker/model/task_text.h"
#include "worker/optim/norm.h"
#include "worker/protocol/commit.h"
#include "worker/tier/scratch_file.h"

namespace swarm::model {
namespace {

constexpr const char* kVelocity = "optimizer.velocity.";
constexpr const char* kPrevious = "previous.";

Status CheckOptions(const StageOptions& options) {
  const auto cannot = [](const std::string& what) {
    return FailedPrecondition("training.stepMode Local does not work with " + what + " yet");
  };
  if (options.stage_count > 1 && options.config.tie_word_embeddings) {
    return cannot("a tied head and more than one stage");  // both ends would move the same weights
  }
  if (options.accumulation != api::Accumulation::kFloat) return cannot("exact sums");
  if (options.divided) return cannot("updates that replicas divide");
  if (options.lora.rank > 0) return cannot("adapters");
  if (api::IsPartOfModel(options.boundary)) {
    return cannot("boundaries that are a part of the model");
  }
  return {};
}

/// A Done, and what it will be called with.
template <typename T>
std::pair<Done<T>, std::future<Result<T>>> MakePending() {
  const auto promise = std::make_shared<std::promise<Result<T>>>();
  return {[promise](Result<T> result) { promise->set_value(std::move(result)); },
          promise->get_future()};
}

}  // namespace

Result<std::unique_ptr<Stage>> MakeLocalStage(const StageOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  StageOptions inner = options;
  inner.step_mode = api::StepMode::kSync;
  inner.microbatches = options.local.microbatches;
  inner.local = {};
  ASSIGN_OR_RETURN(auto stage, Stage::Create(inner));
  return std::unique_ptr<Stage>(std::make_unique<LocalStage>(options, std::move(stage)));
}

LocalStage::LocalStage(const StageOptions& options, std::unique_ptr<Stage> inner)
    : options_(options), inner_(std::move(inner)) {}

LocalStage::Run LocalStage::RunOf(Step round, std::uint64_t group) const {
  const std::uint64_t count = groups()[group].count, fragment = round.value % fragments();
  const std::uint64_t first = count * fragment / fragments();
  return {first, count * (fragment + 1) / fragments() - first};
}

std::vector<ParameterGroup> LocalStage::SumGroups(Step step) const {
  std::vector<ParameterGroup> of_step = groups();
  for (std::size_t g = 0; g < of_step.size(); ++g) of_step[g].count = RunOf(step, g).count;
  return of_step;
}

std::vector<ParameterSlot> LocalStage::SumSlots(Step step, std::uint64_t group) const {
  const Run run = RunOf(step, group);
  std::vector<ParameterSlot> slots;
  for (ParameterSlot slot : Stage::SumSlots(step, group)) {
    const std::uint64_t begin = std::max(slot.offset, run.first);
    const std::uint64_t end = std::min(slot.offset + slot.count, run.first + run.count);
    if (begin >= end) continue;
    slot.offset = begin - run.first;
    slot.count = end - begin;
    slots.push_back(std::move(slot));
  }
  return slots;
}

// ---- weights ----

std::string LocalStage::folder() const {
  return options_.residency == api::Residency::kSwap ? options_.swap.scratch : std::string();
}

Status LocalStage::Allocate() {
  for (Numbers* numbers : {&outer_, &velocity_, &local_, &before_, &kept_}) {
    *numbers = {};
    if (numbers == &kept_ && fragments() == 1) continue;
    if (numbers == &before_ && !options_.local.overlaps) continue;
    ASSIGN_OR_RETURN(*numbers, Numbers::Make(groups(), folder()));
  }
  return {};
}

Status LocalStage::ReadInnerWeights(Numbers* to) const {
  std::map<std::string, const ParameterSlot*> slots;
  for (const ParameterSlot& slot : parameters()) slots.emplace(slot.name, &slot);
  for (const checkpoint::NamedTensor& tensor : inner_->State()) {
    const auto found = slots.find(tensor.name);
    if (found == slots.end()) continue;
    RETURN_IF_ERROR(
        checkpoint::ReadBytes(tensor, 0, std::as_writable_bytes(to->Of(*found->second))));
  }
  return {};
}

std::optional<LocalStage::Weights> LocalStage::Find(Version version) const {
  if (!held_) return {};
  if (version == version_) return Weights::kOuter;
  if (holds_before_ && version.Next() == version_) return Weights::kBefore;
  return {};
}

const Numbers& LocalStage::NumbersOf(Weights weights) const {
  if (weights == Weights::kLocal) return local_;
  return weights == Weights::kOuter ? outer_ : before_;
}

Status LocalStage::Use(Weights weights) {
  if (local_is_outer_ && weights == Weights::kOuter) weights = Weights::kLocal;
  if (used_ == weights) return {};
  RETURN_IF_ERROR(TakeAllSteps());  // gradients of the weights that go
  used_ = Weights::kNone;
  RETURN_IF_ERROR(Replace(NumbersOf(weights)));
  used_ = weights;
  return {};
}

Status LocalStage::Replace(const Numbers& numbers, std::optional<Step> round) {
  std::map<std::string, const ParameterSlot*> slots;
  for (const ParameterSlot& slot : parameters()) {
    const Run run = round ? RunOf(*round, slot.group) : Run{0, groups()[slot.group].count};
    if (slot.offset < run.first + run.count && run.first < slot.offset + slot.count) {
      slots.emplace(slot.name, &slot);
    }
  }
  ++count_of_weights_;
  return inner_->Replace([&](const std::string& name) -> Result<checkpoint::NamedTensor> {
    const auto found = slots.find(name);
    if (found == slots.end()) return NotFound("no tensor " + name);
    const ParameterSlot& slot = *found->second;
    const std::span<const float> of = numbers.Of(slot);
    return checkpoint::NamedTensor{name, checkpoint::ElementType::kF32, slot.shape,
                                   Bytes::Wrap(of.data(), of.size_bytes(), nullptr)};
  });
}

void LocalStage::Forget() {
  readers_.AwaitNone();
  Abandon();
  tasks_.clear();
  open_.clear();
  waiting_.clear();
  sums_.clear();
  spare_.clear();
  held_ = holds_before_ = false;
  used_ = Weights::kNone;
  ++count_of_weights_;
}

void LocalStage::InitRandom(std::uint64_t seed) {
  Forget();
  inner_->InitRandom(seed);
  const Status held = [&]() -> Status {
    RETURN_IF_ERROR(Allocate());
    return ReadInnerWeights(&outer_);
  }();
  SWARM_CHECK(held.ok(), held.message());  // without its disk, the process has no use
  local_.CopyFrom(outer_);
  used_ = Weights::kLocal;
  local_is_outer_ = true;
  version_ = Version(0);
  held_ = true;
}

Status LocalStage::LoadNumbers(const checkpoint::TensorLookup& tensors, const std::string& prefix,
                               Numbers* to) const {
  for (const ParameterSlot& slot : parameters()) {
    ASSIGN_OR_RETURN(const checkpoint::NamedTensor found, tensors(prefix + slot.name));
    ASSIGN_OR_RETURN(const checkpoint::NamedTensor numbers, checkpoint::ConvertToFloat32(found));
    if (numbers.shape != slot.shape) {
      return InvalidArgument(found.name + " has another shape than " + slot.name);
    }
    std::ranges::copy(FloatsOf(numbers.data), to->Of(slot).begin());
  }
  return {};
}

Status LocalStage::Load(const checkpoint::TensorLookup& tensors, Version version, bool optimizer) {
  Forget();
  RETURN_IF_ERROR(Allocate());
  RETURN_IF_ERROR(inner_->Load(tensors, Version(0), /*optimizer=*/false));
  RETURN_IF_ERROR(ReadInnerWeights(&outer_));
  local_.CopyFrom(outer_);
  if (optimizer) {
    RETURN_IF_ERROR(LoadNumbers(tensors, kVelocity, &velocity_));
    if (options_.local.overlaps && version.value > 0) {
      RETURN_IF_ERROR(LoadNumbers(tensors, kPrevious, &before_));
      holds_before_ = true;
    }
  }
  used_ = Weights::kLocal;
  local_is_outer_ = true;
  version_ = version;
  held_ = true;
  return {};
}

std::vector<checkpoint::NamedTensor> LocalStage::State() const {
  std::vector<checkpoint::NamedTensor> state;
  const auto reader = readers_.Enter();
  const auto show = [&](const std::string& name, const ParameterSlot& slot, const Numbers& of) {
    const std::span<const float> numbers = of.Of(slot);
    state.push_back({name, checkpoint::ElementType::kF32, slot.shape,
                     Bytes::Wrap(numbers.data(), numbers.size_bytes(), reader)});
  };
  for (const ParameterSlot& slot : parameters()) {
    show(slot.name, slot, outer_);
    show(kVelocity + slot.name, slot, velocity_);
    if (holds_before_) show(kPrevious + slot.name, slot, before_);
  }
  std::ranges::sort(state, {}, &checkpoint::NamedTensor::name);
  return state;
}

// ---- tasks ----

LocalStage::Batch& LocalStage::OpenBatch(Step round) {
  std::shared_ptr<Batch>& batch = open_[round];
  if (batch == nullptr) {
    batch = std::make_shared<Batch>();
    batch->inner = Step(batches_++);
  }
  return *batch;
}

TaskKey LocalStage::NameInside(const TaskKey& key, bool keep) {
  TaskKey inner = key;
  inner.step = keep ? OpenBatch(key.step).inner : Step(batches_++);
  return inner;
}

std::shared_ptr<LocalStage::Batch> LocalStage::FindWaiting(const TaskKey& key) const {
  const auto found = waiting_.find(key);
  const bool waits = found != waiting_.end() && !found->second->folded.contains(key);
  return waits ? found->second : nullptr;
}

void LocalStage::SubmitForward(const TaskKey& key, Version version, const TokenBatch& tokens,
                               const Bytes& input, bool keep_graph, Done<ForwardResult> done) {
  const bool exists =
      tasks_.contains(key) || FindWaiting(key) != nullptr ||
      std::ranges::any_of(forwards_, [&](const Forwarding& task) { return task.key == key; });
  if (keep_graph && exists) {
    return done(AlreadyExists("forward: " + TaskText(key) + " was executed already"));
  }
  if (!Find(version)) return done(NotHeld(version, version_));
  Task task{.version = version,
            .tokens = {tokens.sequences, tokens.tokens_per_sequence, {}},
            .ids = {tokens.ids.begin(), tokens.ids.end()},
            .input = input,
            .inner = {}};
  forwards_.push_back({key, std::move(task), keep_graph, std::move(done)});
}

void LocalStage::SubmitBackward(const TaskKey& key, const Bytes& gradient,
                                Done<BackwardResult> done) {
  backwards_.push_back({key, gradient, std::move(done)});
}

bool LocalStage::Work() {
  if (!backwards_.empty() && !AwaitForwards(forwards_, backwards_)) {
    RunBackwards();
    return true;
  }
  if (forwards_.empty()) return false;
  RunForwards();
  return true;
}

std::size_t LocalStage::tasks_at_once() const {
  if (options_.residency != api::Residency::kSwap) return 1;
  return std::min<std::size_t>(inner_->tasks_at_once(), options_.local.microbatches);
}

void LocalStage::Abandon() {
  forwards_.clear();
  backwards_.clear();
}

void LocalStage::RunForwards() {
  const bool keep = forwards_.front().keep;
  const Version version = forwards_.front().task.version;
  const std::optional<Weights> of_version = Find(version);
  Status used = of_version ? Use(keep ? Weights::kLocal : *of_version) : NotHeld(version, version_);
  std::vector<Forwarding> tasks;
  while (!forwards_.empty() && tasks.size() < tasks_at_once() && forwards_.front().keep == keep &&
         forwards_.front().task.version == version) {
    tasks.push_back(std::move(forwards_.front()));
    forwards_.pop_front();
  }
  std::vector<std::future<Result<ForwardResult>>> results;
  for (Forwarding& forward : tasks) {
    if (!used.ok()) break;
    Task& task = forward.task;
    task.inner = NameInside(forward.key, keep);
    task.weights = count_of_weights_;
    TokenBatch tokens = task.tokens;
    tokens.ids = task.ids;
    auto [done, result] = MakePending<ForwardResult>();
    results.push_back(std::move(result));
    inner_->SubmitForward(task.inner, inner_->version(), tokens, task.input, keep, std::move(done));
  }
  while (inner_->Work()) {
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    Result<ForwardResult> result = used.ok() ? results[i].get() : Result<ForwardResult>(used);
    if (result.ok() && keep) tasks_[tasks[i].key] = std::move(tasks[i].task);
    tasks[i].done(std::move(result));
  }
}

void LocalStage::RunBackwards() {
  const Step round = backwards_.front().key.step;
  Status used = Use(Weights::kLocal);
  Batch& batch = OpenBatch(round);
  std::vector<Backwarding> tasks;
  while (!backwards_.empty() && backwards_.front().key.step == round &&
         batch.taken + tasks.size() < options_.local.microbatches &&
         tasks.size() < tasks_at_once()) {
    Backwarding backward = std::move(backwards_.front());
    backwards_.pop_front();
    if (tasks_.contains(backward.key)) {
      tasks.push_back(std::move(backward));
    } else {
      backward.done(NotFound("backward: no graph of " + TaskText(backward.key)));
    }
  }
  std::vector<std::pair<std::future<Result<ForwardResult>>, std::future<Result<BackwardResult>>>>
      results(tasks.size());
  for (std::size_t i = 0; used.ok() && i < tasks.size(); ++i) {
    Task& task = tasks_.at(tasks[i].key);
    if (task.weights != count_of_weights_) {  // the weights of its graph have gone
      task.inner = NameInside(tasks[i].key, /*keep=*/true);
      task.weights = count_of_weights_;
      TokenBatch tokens = task.tokens;
      tokens.ids = task.ids;
      auto [done, result] = MakePending<ForwardResult>();
      results[i].first = std::move(result);
      inner_->SubmitForward(task.inner, inner_->version(), tokens, task.input, /*keep_graph=*/true,
                            std::move(done));
    }
    auto [done, result] = MakePending<BackwardResult>();
    results[i].second = std::move(result);
    inner_->SubmitBackward(task.inner, tasks[i].gradient, std::move(done));
  }
  while (inner_->Work()) {
  }
  std::vector<Result<BackwardResult>> answers;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    answers.push_back([&]() -> Result<BackwardResult> {
      RETURN_IF_ERROR(used);
      Result<BackwardResult> result = results[i].second.get();
      if (results[i].first.valid()) RETURN_IF_ERROR(results[i].first.get().status());
      RETURN_IF_ERROR(result.status());
      const TaskKey& key = tasks[i].key;
      RETURN_IF_ERROR(inner_->Fold(tasks_.at(key).inner));
      tasks_.erase(key);
      ++batch.taken;
      batch.tasks.insert(key);
      waiting_[key] = open_.at(round);
      return BackwardResult{std::move(result->gradient)};
    }());
  }
  if (batch.taken >= options_.local.microbatches) {
    if (const Status taken = TakeStep(round); !taken.ok()) {
      for (Result<BackwardResult>& answer : answers) answer = taken;
    }
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) tasks[i].done(std::move(answers[i]));
}

// ---- inner steps ----

Status LocalStage::TakeAllSteps() {
  std::vector<Step> rounds;
  for (const auto& [round, batch] : open_) rounds.push_back(round);
  for (const Step round : rounds) RETURN_IF_ERROR(TakeStep(round));
  return {};
}

Status LocalStage::TakeStep(Step round) {
  const auto found = open_.find(round);
  if (found == open_.end() || found->second->taken == 0) return {};
  const std::shared_ptr<Batch> open = found->second;
  open_.erase(found);
  Batch& batch = *open;
  std::vector<Bytes> sums;
  std::map<std::string, double> squares;  // as a commit adds them
  for (std::size_t g = 0; g < groups().size(); ++g) {
    const GradientSum sum = inner_->Accumulator(batch.inner, g);
    sums.push_back(sum.elements);
    std::size_t in_group = 0;
    for (const ParameterSlot& slot : parameters()) {
      if (slot.group != g) continue;
      const std::size_t index = in_group++;
      squares[slot.name] =
          index < sum.squared_norms.size()
              ? sum.squared_norms[index]
              : optim::SquaredNorm(FloatsOf(sum.elements).subspan(slot.offset, slot.count));
    }
  }
  // The sum is a mean over as many microbatches as a step should have.
  const double scale =
      static_cast<double>(options_.local.microbatches) / static_cast<double>(batch.taken);
  const double norm = protocol::ComputeGlobalNorm(squares) * scale;
  const double clip = protocol::ComputeClip(norm, options_.local.max_grad_norm) * scale;
  RETURN_IF_ERROR(
      inner_->Apply(sums, clip, options_.local.learning_rate(version_), !std::isfinite(norm)));
  sums.clear();
  inner_->ReleaseStep(batch.inner);
  ++count_of_weights_;
  local_is_outer_ = false;
  ASSIGN_OR_RETURN(batch.moved, TakeSpare());
  RETURN_IF_ERROR(ReadInnerWeights(&batch.moved));
  for (std::size_t g = 0; g < groups().size(); ++g) {
    const std::span<float> local = local_.Of(g), moved = batch.moved.Of(g);
    for (std::size_t i = 0; i < local.size(); ++i) {
      const float after = moved[i];
      if (!options_.local.sums_weights) moved[i] = local[i] - after;
      local[i] = after;
    }
  }
  return Settle(round, &batch);
}

float LocalStage::ShareOf(const Batch& batch, std::size_t some) const {
  const std::uint64_t all = options_.local.sums_weights ? options_.microbatches : batch.taken;
  return static_cast<float>(some) / static_cast<float>(all);
}

Result<Numbers> LocalStage::TakeSpare() {
  if (spare_.empty()) return Numbers::Make(groups(), folder());
  Numbers spare = std::move(spare_.back());
  spare_.pop_back();
  return spare;
}

Status LocalStage::Settle(Step round, Batch* batch) {
  if (batch->moved.empty()) return {};
  if (!batch->folded.empty()) {
    ASSIGN_OR_RETURN(Numbers* const sum, SumOf(round));
    sum->Add(batch->moved, ShareOf(*batch, batch->folded.size()));
    for (const TaskKey& key : std::exchange(batch->folded, {})) {
      batch->tasks.erase(key);
      waiting_.erase(key);
    }
  }
  if (batch->tasks.empty()) spare_.push_back(std::exchange(batch->moved, {}));
  return {};
}

Status LocalStage::Fold(const TaskKey& key) {
  const std::shared_ptr<Batch> batch = FindWaiting(key);
  if (batch == nullptr) return NotFound("fold: nothing of " + TaskText(key) + " waits here");
  batch->folded.insert(key);
  return batch->folded == batch->tasks ? Settle(key.step, batch.get()) : Status();
}

void LocalStage::Leave(const TaskKey& key) {
  const auto found = waiting_.extract(key);
  if (found.empty()) return;
  Batch& batch = *found.mapped();
  batch.tasks.erase(key);
  batch.folded.erase(key);
  if (batch.tasks.empty() && !batch.moved.empty()) {
    spare_.push_back(std::exchange(batch.moved, {}));
  }
}

void LocalStage::Drop(const TaskKey& key) {
  if (const auto found = tasks_.find(key); found != tasks_.end()) {
    inner_->Drop(found->second.inner);
    tasks_.erase(found);
  }
  std::erase_if(forwards_, [&](const Forwarding& task) { return task.key == key; });
  std::erase_if(backwards_, [&](const Backwarding& task) { return task.key == key; });
  // The local weights keep what it moved, and the round does not count it.
  if (FindWaiting(key) != nullptr) Leave(key);
}

// ---- rounds ----

Result<Numbers*> LocalStage::SumOf(Step step) {
  Numbers& sum = sums_[step];
  if (!sum.empty() && !sum.IsShared()) return &sum;
  ASSIGN_OR_RETURN(Numbers own, Numbers::Make(groups(), folder()));
  if (!sum.empty()) own.CopyFrom(sum);
  sum = std::move(own);
  return &sum;
}

Status LocalStage::Absorb(Step step, std::uint64_t group, const Bytes& elements, bool) {
  RETURN_IF_ERROR(CheckSum(elements, SumGroups(step).at(group), options_.accumulation));
  ASSIGN_OR_RETURN(const Numbers* const sum, SumOf(step));
  const std::span<float> to = RunOf(step, group).Of(sum->Of(group));
  std::ranges::transform(to, FloatsOf(elements), to.begin(), std::plus());
  return {};
}

GradientSum LocalStage::Accumulator(Step step, std::uint64_t group) {
  const Result<Bytes> elements = [&]() -> Result<Bytes> {
    RETURN_IF_ERROR(TakeStep(step));
    std::set<std::shared_ptr<Batch>> of_step;
    for (const auto& [key, batch] : waiting_) {
      if (key.step == step) of_step.insert(batch);
    }
    for (const std::shared_ptr<Batch>& batch : of_step) RETURN_IF_ERROR(Settle(step, batch.get()));
    if (!sums_.contains(step)) RETURN_IF_ERROR(SumOf(step).status());
    return TakeFragment(step, group);
  }();
  SWARM_CHECK(elements.ok(), elements.status().message());  // without its disk, it has no use
  return {.elements = *elements};
}

Result<Bytes> LocalStage::TakeFragment(Step step, std::uint64_t group) {
  const Numbers& sum = sums_.at(step);
  if (fragments() == 1) return sum.Share(group);
  const Run run = RunOf(step, group);
  ASSIGN_OR_RETURN(const auto memory, tier::MapScratchFile(folder(), run.count * sizeof(float)));
  std::ranges::transform(run.Of(sum.Of(group)), run.Of(kept_.Of(group)),
                         reinterpret_cast<float*>(memory.get()), std::plus());
  return Bytes::Wrap(memory.get(), run.count * sizeof(float), memory);
}

void LocalStage::KeepOthers(Step step, bool skipped) {
  if (fragments() == 1) return;
  if (const auto sum = sums_.find(step); sum != sums_.end() && !skipped) kept_.Add(sum->second, 1);
  for (std::size_t g = 0; g < groups().size(); ++g) {
    std::ranges::fill(RunOf(step, g).Of(kept_.Of(g)), 0.0F);
  }
}

Status LocalStage::SetScaleLevel(Step step, unsigned level) {
  if (level > 0) return InvalidArgument("scale levels are of exact sums");
  sums_.erase(step);
  // What was folded, and is not in the sum yet, has gone with it.
  std::vector<TaskKey> folded;
  for (const auto& [key, batch] : waiting_) {
    if (key.step == step && batch->folded.contains(key)) folded.push_back(key);
  }
  for (const TaskKey& key : folded) Leave(key);
  return {};
}

void LocalStage::ReleaseStep(Step step) {
  std::vector<TaskKey> keys;
  for (const auto& [key, task] : tasks_) {
    if (key.step == step) keys.push_back(key);
  }
  for (const auto& [key, batch] : waiting_) {
    if (key.step == step) keys.push_back(key);
  }
  for (const TaskKey& key : keys) {
    Drop(key);
    Leave(key);
  }
  if (const auto open = open_.extract(step)) inner_->ReleaseStep(open.mapped()->inner);
  sums_.erase(step);
}

Status LocalStage::Apply(std::span<const Bytes> sums, double, double, bool skip) {
  if (!held_) return FailedPrecondition("apply: this stage has no weights; load some");
  const Step step(version_.value), next = step.Next();
  if (!skip) RETURN_IF_ERROR(CheckSums(sums, SumGroups(step), options_.accumulation));
  RETURN_IF_ERROR(TakeAllSteps());
  readers_.AwaitNone();
  held_ = false;
  if (options_.local.overlaps) {
    before_.CopyFrom(outer_);
    holds_before_ = true;
  }
  StepFragment(step, sums, skip);
  KeepOthers(step, skip);
  version_ = version_.Next();
  // Of the other fragments, local weights go on as they are.
  const bool all = std::exchange(used_, Weights::kNone) != Weights::kLocal;
  RETURN_IF_ERROR(Replace(local_, all ? std::optional<Step>() : step));
  used_ = Weights::kLocal;
  held_ = true;
  // A backward of the next round computes its forward again.
  std::vector<TaskKey> older;
  for (const auto& [key, task] : tasks_) {
    if (key.step < next) older.push_back(key);
  }
  for (const TaskKey& key : older) Drop(key);
  return {};
}

void LocalStage::StepFragment(Step step, std::span<const Bytes> sums, bool skip) {
  const OuterRule rule{
      options_.local.outer_learning_rate, options_.local.outer_momentum,
      static_cast<double>(options_.local.inner_steps * options_.local.microbatches) /
          static_cast<double>(options_.microbatches)};
  local_is_outer_ = fragments() == 1;
  for (std::size_t g = 0; g < groups().size(); ++g) {
    const Run run = RunOf(step, g);
    const std::span<float> outer = run.Of(outer_.Of(g));
    if (!skip && options_.local.sums_weights) {
      std::ranges::copy(FloatsOf(sums[g]), outer.begin());
    } else if (!skip) {
      StepOuter(FloatsOf(sums[g]), rule, run.Of(velocity_.Of(g)), outer);
    }
    std::ranges::copy(outer, run.Of(local_.Of(g)).begin());
  }
  // What this replica has moved since is not in the sums.
  const auto leave = [&](const Numbers& moved, float share) {
    local_is_outer_ = false;
    for (std::size_t g = 0; g < groups().size(); ++g) {
      const Run run = RunOf(step, g);
      const std::span<float> local = run.Of(local_.Of(g)), of_run = run.Of(moved.Of(g));
      for (std::size_t i = 0; i < local.size(); ++i) local[i] -= share * of_run[i];
    }
  };
  for (const auto& [of, sum] : sums_) {
    if (of > step) leave(sum, 1);
  }
  std::set<std::shared_ptr<Batch>> ahead;
  for (const auto& [key, batch] : waiting_) {
    if (key.step > step) ahead.insert(batch);
  }
  for (const std::shared_ptr<Batch>& batch : ahead) {
    leave(batch->moved, ShareOf(*batch, batch->tasks.size()));
  }
}

// ---- texts ----

Result<Bytes> LocalStage::Logits(Version version, const TokenBatch& tokens) {
  if (!held_ || version != version_) return NotHeld(version, version_);
  RETURN_IF_ERROR(Use(Weights::kOuter));
  return inner_->Logits(inner_->version(), tokens);
}

Result<std::unique_ptr<Reading>> LocalStage::BeginReading(Version version) {
  if (!held_ || version != version_) return NotHeld(version, version_);
  RETURN_IF_ERROR(Use(Weights::kOuter));
  return inner_->BeginReading(inner_->version());
}

}  // namespace swarm::model
