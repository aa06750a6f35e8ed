#include "worker/model/local/local_stage.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "api/model/boundary.h"
#include "worker/model/exact_sums.h"
#include "worker/model/local/outer.h"
#include "worker/model/task_text.h"
#include "worker/optim/norm.h"
#include "worker/protocol/commit.h"

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
  if (options.residency == api::Residency::kSwap) return cannot("the residency Swap");
  if (options.divided) return cannot("updates that replicas divide");
  if (options.lora.rank > 0) return cannot("adapters");
  if (api::IsPartOfModel(options.boundary)) {
    return cannot("boundaries that are a part of the model");
  }
  return {};
}

std::span<const float> FloatsOf(const Bytes& bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

void Add(std::span<const float> from, std::span<float> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

}  // namespace

Result<std::unique_ptr<Stage>> MakeLocalStage(const StageOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  StageOptions inner = options;
  inner.step_mode = api::StepMode::kSync;
  inner.microbatches = 1;  // of an inner step
  inner.local = {};
  ASSIGN_OR_RETURN(auto stage, Stage::Create(inner));
  return std::unique_ptr<Stage>(std::make_unique<LocalStage>(options, std::move(stage)));
}

LocalStage::LocalStage(const StageOptions& options, std::unique_ptr<Stage> inner)
    : options_(options), inner_(std::move(inner)) {}

// ---- weights ----

LocalStage::Flat LocalStage::Zeros() const {
  Flat zeros;
  for (const ParameterGroup& group : groups()) zeros.emplace_back(group.count, 0.0F);
  return zeros;
}

LocalStage::Flat LocalStage::InnerWeights() const {
  Flat weights = Zeros();
  std::map<std::string, const ParameterSlot*> slots;
  for (const ParameterSlot& slot : parameters()) slots.emplace(slot.name, &slot);
  for (const checkpoint::NamedTensor& tensor : inner_->State()) {
    const auto found = slots.find(tensor.name);
    if (found == slots.end()) continue;
    const ParameterSlot& slot = *found->second;
    const std::span to(weights[slot.group].data() + slot.offset, slot.count);
    const Status read = checkpoint::ReadBytes(tensor, 0, std::as_writable_bytes(to));
    SWARM_CHECK(read.ok(), read.message());  // without its device, the process has no use
  }
  return weights;
}

const LocalStage::Flat* LocalStage::Find(Version version) const {
  if (!held_) return nullptr;
  if (version == version_) return &outer_;
  return !before_.empty() && version.Next() == version_ ? &before_ : nullptr;
}

Status LocalStage::Use(const Flat& weights) {
  if (used_ == &weights) return {};
  if (used_ != nullptr && *used_ == weights) {
    used_ = &weights;
    return {};
  }
  used_ = nullptr;
  std::map<std::string, checkpoint::NamedTensor> tensors;
  for (checkpoint::NamedTensor& tensor : inner_->Snapshot()) {
    tensors.emplace(tensor.name, std::move(tensor));
  }
  for (const ParameterSlot& slot : parameters()) {
    const float* const first = weights[slot.group].data() + slot.offset;
    tensors[slot.name] = {slot.name, checkpoint::ElementType::kF32, slot.shape,
                          Bytes::Wrap(first, slot.count * sizeof(float), nullptr)};
  }
  RETURN_IF_ERROR(inner_->Load(
      [&](const std::string& name) -> Result<checkpoint::NamedTensor> {
        const auto found = tensors.find(name);
        if (found == tensors.end()) return NotFound("no tensor " + name);
        return found->second;
      },
      inner_->version().Next(), /*optimizer=*/true));
  used_ = &weights;
  return {};
}

void LocalStage::Forget() {
  tasks_.clear();
  waiting_.clear();
  sums_.clear();
}

void LocalStage::InitRandom(std::uint64_t seed) {
  readers_.AwaitNone();
  Forget();
  inner_->InitRandom(seed);
  outer_ = local_ = InnerWeights();
  velocity_ = Zeros();
  before_.clear();
  used_ = &outer_;
  version_ = Version(0);
  held_ = true;
}

Result<LocalStage::Flat> LocalStage::LoadFlat(const checkpoint::TensorLookup& tensors,
                                              const std::string& prefix) const {
  Flat flat = Zeros();
  for (const ParameterSlot& slot : parameters()) {
    ASSIGN_OR_RETURN(const checkpoint::NamedTensor found, tensors(prefix + slot.name));
    ASSIGN_OR_RETURN(const checkpoint::NamedTensor numbers, checkpoint::ConvertToFloat32(found));
    if (numbers.shape != slot.shape) {
      return InvalidArgument(found.name + " has another shape than " + slot.name);
    }
    std::memcpy(flat[slot.group].data() + slot.offset, numbers.data.data(), numbers.data.size());
  }
  return flat;
}

Status LocalStage::Load(const checkpoint::TensorLookup& tensors, Version version, bool optimizer) {
  readers_.AwaitNone();
  Forget();
  held_ = false;
  used_ = nullptr;
  before_.clear();
  RETURN_IF_ERROR(inner_->Load(tensors, Version(0), /*optimizer=*/false));
  outer_ = local_ = InnerWeights();
  velocity_ = Zeros();
  if (optimizer) {
    ASSIGN_OR_RETURN(velocity_, LoadFlat(tensors, kVelocity));
    if (options_.local.overlaps && version.value > 0) {
      ASSIGN_OR_RETURN(before_, LoadFlat(tensors, kPrevious));
    }
  }
  used_ = &outer_;
  version_ = version;
  held_ = true;
  return {};
}

std::vector<checkpoint::NamedTensor> LocalStage::State() const {
  std::vector<checkpoint::NamedTensor> state;
  const auto reader = readers_.Enter();
  const auto show = [&](const std::string& name, const ParameterSlot& slot, const Flat& numbers) {
    const float* const first = numbers[slot.group].data() + slot.offset;
    state.push_back({name, checkpoint::ElementType::kF32, slot.shape,
                     Bytes::Wrap(first, slot.count * sizeof(float), reader)});
  };
  for (const ParameterSlot& slot : parameters()) {
    show(slot.name, slot, outer_);
    show(kVelocity + slot.name, slot, velocity_);
    if (!before_.empty()) show(kPrevious + slot.name, slot, before_);
  }
  std::ranges::sort(state, {}, &checkpoint::NamedTensor::name);
  return state;
}

// ---- inner steps ----

TaskKey LocalStage::NextInner(const TaskKey& key) {
  TaskKey inner = key;
  inner.step = Step(inner_tasks_++);
  return inner;
}

void LocalStage::SubmitForward(const TaskKey& key, Version version, const TokenBatch& tokens,
                               const Bytes& input, bool keep_graph, Done<ForwardResult> done) {
  const Flat* const outer = Find(version);
  if (outer == nullptr) return done(NotHeld(version, version_));
  if (keep_graph && (tasks_.contains(key) || waiting_.contains(key))) {
    return done(AlreadyExists("forward: " + TaskText(key) + " was executed already"));
  }
  if (const Status used = Use(keep_graph ? local_ : *outer); !used.ok()) return done(used);
  const TaskKey inner = NextInner(key);
  if (keep_graph) {
    tasks_[key] = {inner,
                   {tokens.sequences, tokens.tokens_per_sequence, {}},
                   {tokens.ids.begin(), tokens.ids.end()},
                   input};
  }
  Result<ForwardResult> result =
      inner_->Forward(inner, inner_->version(), tokens, input, keep_graph);
  if (!result.ok()) tasks_.erase(key);
  done(std::move(result));
}

void LocalStage::SubmitBackward(const TaskKey& key, const Bytes& gradient,
                                Done<BackwardResult> done) {
  done(RunBackward(key, gradient));
}

Result<BackwardResult> LocalStage::RunBackward(const TaskKey& key, const Bytes& gradient) {
  const auto found = tasks_.find(key);
  if (found == tasks_.end()) {
    return NotFound("backward: no graph of " + TaskText(key));
  }
  Task& task = found->second;
  RETURN_IF_ERROR(Use(local_));
  Result<Bytes> input_gradient = inner_->Backward(task.inner, gradient);
  if (input_gradient.status().code() == StatusCode::kNotFound) {
    // An inner step has taken the weights of its graph.
    task.inner = NextInner(key);
    task.tokens.ids = task.ids;
    RETURN_IF_ERROR(
        inner_->Forward(task.inner, inner_->version(), task.tokens, task.input, true).status());
    input_gradient = inner_->Backward(task.inner, gradient);
  }
  if (!input_gradient.ok()) return input_gradient.status();
  ASSIGN_OR_RETURN(Flat moved, StepInner(task.inner));
  waiting_[key] = std::move(moved);
  tasks_.erase(found);
  return BackwardResult{*std::move(input_gradient)};
}

Result<LocalStage::Flat> LocalStage::StepInner(const TaskKey& inner) {
  RETURN_IF_ERROR(inner_->Fold(inner));
  std::vector<Bytes> sums;
  double squares = 0;
  for (std::size_t g = 0; g < groups().size(); ++g) {
    sums.push_back(inner_->Accumulator(inner.step, g).elements);
    squares += optim::SquaredNorm(FloatsOf(sums.back()));
  }
  const double norm = std::sqrt(squares);
  RETURN_IF_ERROR(inner_->Apply(sums, protocol::ComputeClip(norm, options_.local.max_grad_norm),
                                options_.local.learning_rate(version_), !std::isfinite(norm)));
  inner_->ReleaseStep(inner.step);
  Flat after = InnerWeights(), moved = Zeros();
  for (std::size_t g = 0; g < moved.size(); ++g) {
    for (std::size_t i = 0; i < moved[g].size(); ++i) moved[g][i] = local_[g][i] - after[g][i];
  }
  local_ = std::move(after);
  return moved;
}

void LocalStage::Drop(const TaskKey& key) {
  if (const auto found = tasks_.find(key); found != tasks_.end()) {
    inner_->Drop(found->second.inner);
    tasks_.erase(found);
  }
  // The local weights keep what it moved, and the round does not count it.
  waiting_.erase(key);
}

// ---- rounds ----

LocalStage::Flat& LocalStage::SumOf(Step step) {
  const auto [sum, is_first] = sums_.try_emplace(step, Flat());
  if (is_first) sum->second = Zeros();
  return sum->second;
}

Status LocalStage::Fold(const TaskKey& key) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) {
    return NotFound("fold: nothing of " + TaskText(key) + " waits here");
  }
  Flat& sum = SumOf(key.step);
  for (std::size_t g = 0; g < found->second.size(); ++g) Add(found->second[g], sum[g]);
  waiting_.erase(found);
  return {};
}

Status LocalStage::Absorb(Step step, std::uint64_t group, const Bytes& elements, bool) {
  RETURN_IF_ERROR(CheckSum(elements, groups().at(group), options_.accumulation));
  Add(FloatsOf(elements), SumOf(step)[group]);
  return {};
}

GradientSum LocalStage::Accumulator(Step step, std::uint64_t group) {
  const auto found = sums_.find(step);
  const std::size_t bytes = groups().at(group).count * sizeof(float);
  const auto fill = [&](std::byte* to) {
    found == sums_.end() ? std::memset(to, 0, bytes)
                         : std::memcpy(to, found->second[group].data(), bytes);
  };
  return {.elements = Bytes::Make(bytes, fill)};
}

Status LocalStage::SetScaleLevel(Step step, unsigned level) {
  if (level > 0) return InvalidArgument("scale levels are of exact sums");
  sums_.erase(step);
  return {};
}

void LocalStage::ReleaseStep(Step step) {
  std::vector<TaskKey> keys;
  for (const auto& [key, task] : tasks_) {
    if (key.step == step) keys.push_back(key);
  }
  for (const TaskKey& key : keys) Drop(key);
  std::erase_if(waiting_, [&](const auto& entry) { return entry.first.step == step; });
  sums_.erase(step);
}

Status LocalStage::Apply(std::span<const Bytes> sums, double, double, bool skip) {
  if (!held_) return FailedPrecondition("apply: this stage has no weights; load some");
  if (!skip) RETURN_IF_ERROR(CheckSums(sums, groups(), options_.accumulation));
  readers_.AwaitNone();
  const OuterRule rule{
      options_.local.outer_learning_rate, options_.local.outer_momentum,
      static_cast<double>(options_.local.inner_steps) / static_cast<double>(options_.microbatches)};
  held_ = false;
  used_ = used_ == &local_ ? &local_ : nullptr;
  if (options_.local.overlaps) before_ = outer_;
  for (std::size_t g = 0; g < outer_.size() && !skip; ++g) {
    StepOuter(FloatsOf(sums[g]), rule, velocity_[g], outer_[g]);
  }
  // What this replica has moved in the next round is not in the sums.
  const Step next = Step(version_.value).Next();
  Flat ahead = outer_;
  const auto leave = [&](const Flat& moved) {
    for (std::size_t g = 0; g < moved.size(); ++g) {
      for (std::size_t i = 0; i < moved[g].size(); ++i) ahead[g][i] -= moved[g][i];
    }
  };
  for (const auto& [step, sum] : sums_) {
    if (step >= next) leave(sum);
  }
  for (const auto& [key, moved] : waiting_) {
    if (key.step >= next) leave(moved);
  }
  RETURN_IF_ERROR(Use(ahead));
  local_ = std::move(ahead);
  used_ = &local_;
  version_ = version_.Next();
  held_ = true;
  // Their graphs have gone; a backward of the next round computes its forward again.
  std::vector<TaskKey> older;
  for (const auto& [key, task] : tasks_) {
    if (key.step < next) older.push_back(key);
  }
  for (const TaskKey& key : older) Drop(key);
  return {};
}

// ---- texts ----

Result<Bytes> LocalStage::Logits(Version version, const TokenBatch& tokens) {
  if (!held_ || version != version_) return NotHeld(version, version_);
  RETURN_IF_ERROR(Use(outer_));
  return inner_->Logits(inner_->version(), tokens);
}

Result<std::unique_ptr<Reading>> LocalStage::BeginReading(Version version) {
  if (!held_ || version != version_) return NotHeld(version, version_);
  RETURN_IF_ERROR(Use(outer_));
  return inner_->BeginReading(inner_->version());
}

}  // namespace swarm::model
