#include "worker/model/swap/swap_stage.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <ranges>
#include <utility>

#include "api/model/boundary.h"
#include "worker/model/decoder/tensor_memory.h"
#include "worker/model/swap/submitted.h"
#include "worker/model/task_text.h"
#include "worker/optim/fixed_point.h"

namespace swarm::model {
namespace {

Status CheckOptions(const StageOptions& options, const Layout& layout) {
  const auto cannot = [](const std::string& what) {
    return FailedPrecondition("pipeline.residency Swap does not work with " + what + " yet");
  };
  if (options.divided) return cannot("updates that replicas divide");
  if (api::IsPartOfModel(options.boundary))
    return cannot("boundaries that are a part of the model");
  const bool rounds = api::ForwardNumbers(options.boundary) != api::NumberCodec::kNone ||
                      api::BackwardNumbers(options.boundary) != api::NumberCodec::kNone;
  for (const auto& [before, halves] : layout.boundaries) {
    const bool inside =
        before > layout.slice.first && before < layout.slice.first + layout.slice.count;
    if (inside && rounds) return cannot("boundaries inside a stage");
  }
  return {};
}

/// Parcels that leave to the tier at once; beyond, the one that computes waits for the first.
constexpr std::size_t kLeaving = 2;

/// Tasks whose results are awaited while the next one is submitted: a device works beside the host.
constexpr std::size_t kBehind = 1;

}  // namespace

Result<std::unique_ptr<Stage>> MakeSwapStage(const StageOptions& options) {
  ASSIGN_OR_RETURN(Layout layout,
                   ComputeParameterLayout(options.config, options.stage, options.stage_count,
                                          options.boundary, options.lora));
  RETURN_IF_ERROR(CheckOptions(options, layout));
  ASSIGN_OR_RETURN(SwapPlan plan, Cut(options, layout));
  std::unique_ptr<tier::Tier> tier = tier::MakeMemoryTier();
  if (!options.swap.scratch.empty()) {
    ASSIGN_OR_RETURN(tier, tier::OpenFileTier(options.swap.scratch));
  }
  StageOptions there = options, here = options;
  there.residency = api::Residency::kOffload;  // of the device's memory, segments have the operands
  here.device = "cpu";
  here.streams = nullptr;
  ASSIGN_OR_RETURN(auto device, OpenWays(there));
  ASSIGN_OR_RETURN(auto host, OpenWays(here));
  return std::unique_ptr<Stage>(std::make_unique<SwapStage>(options, std::move(layout),
                                                            std::move(plan), std::move(tier),
                                                            std::move(device), std::move(host)));
}

SwapStage::SwapStage(const StageOptions& options, Layout layout, SwapPlan plan,
                     std::unique_ptr<tier::Tier> tier, DecoderStage::Ways device,
                     DecoderStage::Ways host)
    : options_(options),
      layout_(std::move(layout)),
      plan_(std::move(plan)),
      contribution_bits_(optim::ContributionBits(options.microbatches)),
      activation_codec_(codec::MakeCodec(options.boundary, codec::Direction::kForward)),
      gradient_codec_(codec::MakeCodec(options.boundary, codec::Direction::kBackward)),
      plain_codec_(codec::MakeCodec({}, codec::Direction::kForward)),
      space_(std::move(tier)),
      store_(options_, layout_, space_, gauge_, std::move(device), std::move(host)),
      segments_(MakeSegments(options, layout_, plan_)),
      sums_(layout_, options.accumulation, space_),
      scale_levels_(options.accumulation) {}

std::string SwapStage::DescribeMemory() const {
  return std::to_string(segments_.size()) + " segments of up to " + std::to_string(plan_.largest) +
         " parameters in " + std::to_string(options_.swap.memory >> 20) + " MiB, " +
         std::to_string(plan_.tasks) + " tasks together" +
         (plan_.inputs_in_tier ? " with the inputs of segments in the file, " : ", ") +
         (plan_.updates_beside ? "updates beside them, " : "") + space_.tier().name();
}

// ---- the state ----

Version SwapStage::ReadBy(Step step) const {
  return Version(delayed() && step.value > 0 ? step.value - 1 : step.value);
}

std::optional<SegmentStore::Weights> SwapStage::WeightsOf(Version version) const {
  using Weights = SegmentStore::Weights;
  if (!held_) return {};
  if (version == version_) return update_ ? Weights::kReplaced : Weights::kNewest;
  if (update_ || version.Next() != version_ || !store_.HasPrevious()) return {};
  return Weights::kPrevious;
}

Status SwapStage::Fill(Version version, const std::function<Status(Stage&)>& fill) {
  Settle();
  readers_.AwaitNone();
  Leave();
  Abandon();
  kept_.clear();
  waiting_.clear();
  sums_.Clear();
  scale_levels_.Clear();
  held_ = false;
  version_ = version;
  store_.Clear();
  std::uint64_t each = SegmentBytes(options_.precision);
  if (delayed()) each += each - 2 * sizeof(float);  // two versions of the weights
  for (const Segment& segment : segments_) {
    const auto held = gauge_.Hold(segment.parameters * each);
    ASSIGN_OR_RETURN(const auto stage, store_.MakeEmpty(segment));
    RETURN_IF_ERROR(fill(*stage));
    Transit leaving;
    RETURN_IF_ERROR(store_.Store(segment, *stage, /*whole=*/true, &leaving));
    RETURN_IF_ERROR(leaving.Wait());
  }
  RETURN_IF_ERROR(store_.FindPieces());
  held_ = true;
  return {};
}

void SwapStage::InitRandom(std::uint64_t seed) {
  const Status filled = Fill(Version(0), [&](Stage& stage) {
    stage.InitRandom(seed);
    return Status();
  });
  SWARM_CHECK(filled.ok(), filled.message());  // without its tier, the process has no use
}

Status SwapStage::Load(const checkpoint::TensorLookup& tensors, Version version, bool optimizer) {
  return Fill(version, [&](Stage& stage) { return stage.Load(tensors, version, optimizer); });
}

Status SwapStage::Replace(const checkpoint::TensorLookup& weights) {
  if (options_.step_mode != api::StepMode::kSync || exact()) return Stage::Replace(weights);
  if (!held_) return FailedPrecondition("replace: there are no weights; load some");
  readers_.AwaitNone();
  Leave();
  kept_.clear();
  held_ = false;
  Transit leaving;
  for (const ParameterSlot& slot : layout_.slots) {
    const Result<checkpoint::NamedTensor> found = weights(slot.name);
    if (found.status().code() == StatusCode::kNotFound) continue;
    RETURN_IF_ERROR(found.status());
    if (found->shape != slot.shape) {
      return InvalidArgument(slot.name + " has another shape than the stage's");
    }
    ASSIGN_OR_RETURN(const checkpoint::NamedTensor numbers, checkpoint::ConvertToFloat32(*found));
    RETURN_IF_ERROR(store_.Put(numbers, &leaving));
  }
  RETURN_IF_ERROR(leaving.Wait());
  held_ = true;
  return {};
}

std::vector<checkpoint::NamedTensor> SwapStage::State() const {
  return store_.Show(readers_.Enter());
}

Result<Stage*> SwapStage::Enter(Version version, std::size_t segment,
                                std::optional<std::size_t> next) {
  GoOnUpdating(/*waits=*/false);
  const Segment& of = segments_[segment];
  const std::optional<SegmentStore::Weights> weights = WeightsOf(version);
  if (!weights) return NotHeld(version, version_);
  if (version != entered_version_) Leave();
  entered_version_ = version;
  if (stage_ == nullptr || entered_ != segment) {
    stage_.reset();
    stage_held_.reset();
    if (prepared_ != nullptr && coming_ == segment) {
      stage_ = std::move(prepared_);
    } else {
      prepared_.reset();
      if (!loading_ || coming_ != segment) {
        loading_.reset();
        loading_ = store_.Bring(of, Purpose::kPass, *weights);
      }
      ASSIGN_OR_RETURN(stage_,
                       store_.Take(of, Purpose::kPass, version, *std::exchange(loading_, {})));
    }
    // Weights, one gradient that is fresh and one that leaves.
    stage_held_ = gauge_.Hold(of.parameters * SegmentBytes(options_.precision));
    entered_ = segment;
  }
  if (next && ((!loading_ && prepared_ == nullptr) || coming_ != *next)) {
    prepared_.reset();
    loading_.reset();
    loading_ = store_.Bring(segments_[*next], Purpose::kPass, *weights);
    coming_ = *next;
  }
  return stage_.get();
}

void SwapStage::Leave() {
  stage_.reset();
  stage_held_.reset();
  prepared_.reset();
  loading_.reset();
}

void SwapStage::Prepare() {
  GoOnUpdating(/*waits=*/false);
  if (!store_.on_device() || !loading_ || !loading_->tensors->IsOver()) return;
  auto made = store_.Take(segments_[coming_], Purpose::kPass, entered_version_,
                          *std::exchange(loading_, {}));
  if (made.ok()) prepared_ = *std::move(made);  // if not, Enter tries again and tells why
}

// ---- tasks ----

Result<Bytes> SwapStage::Recoded(const codec::Codec& from, const codec::Codec& to,
                                 const Bytes& payload, const TokenBatch& tokens) const {
  const std::int64_t columns = tokens.tokens_per_sequence;
  try {
    ASSIGN_OR_RETURN(
        const at::Tensor tensor,
        from.Decode(payload, {tokens.sequences, columns - 1, options_.config.hidden_size},
                    at::Device(at::kCPU)));
    return to.Encode(tensor);
  } catch (const std::exception& error) {
    return Internal(std::string("boundary: ") + error.what());
  }
}

void SwapStage::SubmitForward(const TaskKey& key, Version version, const TokenBatch& tokens,
                              const Bytes& input, bool keep_graph, Done<ForwardResult> done) {
  const bool exists =
      kept_.contains(key) || FindWaiting(key) != nullptr ||
      std::ranges::any_of(forwards_, [&](const Forwarding& task) { return task.key == key; });
  if (keep_graph && exists) {
    return done(AlreadyExists("forward: " + TaskText(key) + " was executed already"));
  }
  if (const Status status = CheckPredicts(tokens); !status.ok()) return done(status);
  if (const Status status = CheckSize(tokens); !status.ok()) {
    return done(status.WithContext("forward of " + TaskText(key)));
  }
  forwards_.push_back({key,
                       version,
                       {tokens.sequences, tokens.tokens_per_sequence, {}},
                       {tokens.ids.begin(), tokens.ids.end()},
                       std::make_shared<Parcel>(input),
                       keep_graph,
                       std::move(done)});
}

void SwapStage::SubmitBackward(const TaskKey& key, const Bytes& gradient,
                               Done<BackwardResult> done) {
  backwards_.push_back({key, gradient, std::move(done)});
}

Result<std::shared_ptr<Parcel>> SwapStage::Pack(Bytes bytes) {
  if (!plan_.inputs_in_tier) {
    auto held = gauge_.Hold(bytes.size());
    return std::make_shared<Parcel>(std::move(bytes), std::move(held));
  }
  ASSIGN_OR_RETURN(auto parcel, Parcel::Send(space_, gauge_, std::move(bytes)));
  leaving_.push_back(parcel);
  while (leaving_.size() > kLeaving) {
    const auto first = std::move(leaving_.front());
    leaving_.pop_front();
    RETURN_IF_ERROR(first->Settle());
  }
  return parcel;
}

bool SwapStage::Work() {
  if (PassOn()) return true;
  if (!update_) return false;
  GoOnUpdating(/*waits=*/true);
  return true;
}

bool SwapStage::PassOn() {
  if (!InPass()) {
    if (!backwards_.empty() && !AwaitForwards(forwards_, backwards_)) {
      BeginBackwards();
    } else if (!forwards_.empty()) {
      BeginForwards();
    } else {
      return false;
    }
  }
  if (forward_pass_ != nullptr) {
    PassForward();
  } else if (backward_pass_ != nullptr) {
    PassBackward();
  }
  return true;
}

void SwapStage::Abandon() {
  forwards_.clear();
  backwards_.clear();
  forward_pass_.reset();
  backward_pass_.reset();
}

void SwapStage::BeginForwards() {
  std::vector<Forwarding> tasks;
  while (!forwards_.empty() && tasks.size() < plan_.tasks) {
    if (!tasks.empty() && forwards_.front().version != tasks.front().version) break;
    Forwarding task = std::move(forwards_.front());
    forwards_.pop_front();
    if (!Holds(task.version)) {
      task.done(NotHeld(task.version, version_));
      continue;
    }
    Result<Bytes> input = task.input->Take();
    if (task.keep && input.ok()) {
      kept_[task.key].payloads = {task.version, task.tokens, task.ids, *input, {}};
    }
    if (!layout_.slice.embedding) {
      if (input.ok()) input = Recoded(*activation_codec_, *plain_codec_, *input, task.tokens);
      if (!input.ok()) {
        kept_.erase(task.key);
        task.done(input.status().WithContext("forward of " + TaskText(task.key)));
        continue;
      }
      task.input = std::make_shared<Parcel>(*std::move(input));
    }
    tasks.push_back(std::move(task));
  }
  if (tasks.empty()) return;
  forward_pass_ = std::make_unique<ForwardPass>();
  forward_pass_->tasks = std::move(tasks);
}

void SwapStage::PassForward() {
  std::vector<Forwarding> tasks = std::exchange(forward_pass_->tasks, {});
  const std::size_t s = forward_pass_->segment++;
  const bool last = s + 1 == segments_.size();
  const Result<Stage*> stage =
      Enter(tasks.front().version, s, last ? std::optional<std::size_t>() : s + 1);
  std::vector<Forwarding> going_on;
  Submitted<Forwarding, ForwardResult> submitted(kBehind, [&](Forwarding task, auto result) {
    EndForward(std::move(task), std::move(result), last, &going_on);
  });
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (i + 1 < tasks.size()) tasks[i + 1].input->Begin();
    if (!stage.ok()) {
      EndForward(std::move(tasks[i]), stage.status(), last, &going_on);
      continue;
    }
    auto result = BeginForward(**stage, tasks[i]);
    submitted.Add(std::move(tasks[i]), std::move(result));
    Prepare();
  }
  submitted.Finish();
  forward_pass_->tasks = std::move(going_on);
  if (forward_pass_->tasks.empty()) forward_pass_.reset();
}

std::future<Result<ForwardResult>> SwapStage::BeginForward(Stage& stage, Forwarding& task) {
  auto [done, result] = Expect<ForwardResult>();
  const Result<Bytes> input = task.input->Take();
  if (!input.ok()) {
    done(input.status());
    return std::move(result);
  }
  if (task.keep) kept_.at(task.key).inputs.push_back(task.input);
  TokenBatch tokens = task.tokens;
  tokens.ids = task.ids;
  stage.SubmitForward(task.key, task.version, tokens, *input, /*keep_graph=*/false, done);
  return std::move(result);
}

void SwapStage::EndForward(Forwarding task, Result<ForwardResult> result, bool last,
                           std::vector<Forwarding>* going_on) {
  if (result.ok() && !last) {
    Result<std::shared_ptr<Parcel>> output = Pack(std::move(result->boundary));
    if (output.ok()) {
      task.input = *std::move(output);
      going_on->push_back(std::move(task));
      return;
    }
    result = output.status();
  }
  if (!result.ok()) {
    kept_.erase(task.key);
    task.done(result.status());
  } else if (layout_.slice.head) {
    task.done(*std::move(result));
  } else {
    Result<Bytes> output =
        Recoded(*plain_codec_, *activation_codec_, result->boundary, task.tokens);
    task.done(output.ok() ? Result<ForwardResult>({*std::move(output), 0}) : output.status());
  }
}

std::vector<SwapStage::Passing> SwapStage::TakeBackwards() {
  std::vector<Passing> tasks;
  while (!backwards_.empty() && tasks.size() < plan_.tasks) {
    const TaskKey key = backwards_.front().key;
    const auto found = kept_.find(key);
    const bool there = found != kept_.end() && Holds(found->second.payloads.version);
    if (!tasks.empty()) {
      const Passing& first = tasks.front();
      if (key.step != first.task.key.step) break;
      if (there && found->second.payloads.version != first.kept.payloads.version) break;
    }
    Backwarding task = std::move(backwards_.front());
    backwards_.pop_front();
    if (!there) {
      task.done(NotFound("backward: no graph of " + TaskText(key)));
      continue;
    }
    Kept kept = std::move(found->second);
    kept_.erase(found);
    kept.payloads.gradient = task.gradient;
    if (!layout_.slice.head) {
      Result<Bytes> gradient =
          Recoded(*gradient_codec_, *plain_codec_, task.gradient, kept.payloads.tokens);
      if (!gradient.ok()) {
        task.done(gradient.status().WithContext("backward of " + TaskText(task.key)));
        continue;
      }
      task.gradient = *std::move(gradient);
    }
    auto gradient = std::make_shared<Parcel>(std::exchange(task.gradient, {}));
    tasks.push_back({std::move(task), std::move(kept), std::move(gradient)});
  }
  return tasks;
}

void SwapStage::BeginBackwards() {
  std::vector<Passing> tasks = TakeBackwards();
  if (tasks.empty()) return;
  backward_pass_ = std::make_unique<BackwardPass>();
  backward_pass_->step = tasks.front().task.key.step;
  backward_pass_->tasks = std::move(tasks);
  backward_pass_->segments = segments_.size();
  backward_pass_->together->whole = true;
}

void SwapStage::PassBackward() {
  BackwardPass& pass = *backward_pass_;
  std::vector<Passing> tasks = std::exchange(pass.tasks, {});
  const std::size_t first = first_backward(), s = --pass.segments;
  const Version version = tasks.front().kept.payloads.version;
  const Result<Stage*> stage = Enter(version, s, s > first ? std::optional(s - 1) : std::nullopt);
  const auto end = [&](Passing passing, Result<BackwardResult> result) {
    const Status passed = [&]() -> Status {
      RETURN_IF_ERROR(result.status());
      Bytes gradient = std::move(result->gradient);
      if (exact()) {
        Contribution& alone = pass.alone[passing.task.key];
        RETURN_IF_ERROR(Dismiss(**stage, s, pass.step, &pass.leaving, &alone));
      }
      if (s == first) {
        passing.task.gradient = std::move(gradient);
        return {};
      }
      ASSIGN_OR_RETURN(passing.gradient, Pack(std::move(gradient)));
      return {};
    }();
    if (passed.ok()) return pass.tasks.push_back(std::move(passing));
    pass.together->whole = false;  // what it has added so far is in the sums of others
    passing.task.done(passed);
  };
  // Exact gradients of a task leave before the next one adds its own.
  Submitted<Passing, BackwardResult> submitted(exact() ? 0 : kBehind, end);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (i + 1 < tasks.size()) {
      tasks[i + 1].kept.inputs.back()->Begin();
      tasks[i + 1].gradient->Begin();
    }
    if (!stage.ok()) {
      end(std::move(tasks[i]), stage.status());
      continue;
    }
    auto gradient = BeginBackward(**stage, tasks[i]);
    submitted.Add(std::move(tasks[i]), std::move(gradient));
    Prepare();
  }
  submitted.Finish();
  Status left;
  if (!exact() && !pass.tasks.empty()) {
    left = Dismiss(**stage, s, pass.step, &pass.leaving, &pass.together->sum);
  }
  if (left.ok() && s == first) left = pass.leaving.Wait();
  if (!left.ok()) {
    for (Passing& passing : std::exchange(pass.tasks, {})) passing.task.done(left);
  }
  if (s == first) EndBackwards();
  if (pass.tasks.empty()) backward_pass_.reset();
}

void SwapStage::EndBackwards() {
  BackwardPass& pass = *backward_pass_;
  std::vector<Passing> tasks = std::exchange(pass.tasks, {});
  for (Passing& passing : tasks) {
    const TaskKey key = passing.task.key;
    const auto waiting = exact() ? std::make_shared<Waiting>() : pass.together;
    if (exact()) {
      waiting->sum = std::move(pass.alone[key]);
      waiting->whole = true;
    }
    waiting->tasks.emplace(key, passing.kept.payloads);
    waiting_[key] = waiting;
  }
  for (Passing& passing : tasks) {
    const std::shared_ptr<Waiting> waiting = waiting_.at(passing.task.key);
    Answer(std::move(passing), waiting->sum);
  }
}

template <typename Is>
void SwapStage::DropPassing(Is is) {
  if (forward_pass_ != nullptr) {
    std::erase_if(forward_pass_->tasks,
                  [&](const Forwarding& task) { return task.keep && is(task.key); });
    if (forward_pass_->tasks.empty()) forward_pass_.reset();
  }
  if (backward_pass_ == nullptr) return;
  const auto dropped = std::erase_if(backward_pass_->tasks,
                                     [&](const Passing& passing) { return is(passing.task.key); });
  // What they have added so far is in the sums of others.
  if (dropped > 0) backward_pass_->together->whole = false;
  if (backward_pass_->tasks.empty()) backward_pass_.reset();
}

std::future<Result<BackwardResult>> SwapStage::BeginBackward(Stage& stage, Passing& passing) {
  auto [done, result] = Expect<BackwardResult>();
  const Status begun = [&]() -> Status {
    const Payloads& payloads = passing.kept.payloads;
    const TaskKey& key = passing.task.key;
    TokenBatch tokens = payloads.tokens;
    tokens.ids = payloads.ids;
    ASSIGN_OR_RETURN(const Bytes input, passing.kept.inputs.back()->Take());
    passing.kept.inputs.pop_back();
    ASSIGN_OR_RETURN(const Bytes gradient, std::exchange(passing.gradient, {})->Take());
    auto [forward_done, forward] = Expect<ForwardResult>();
    stage.SubmitForward(key, payloads.version, tokens, input, /*keep_graph=*/true, forward_done);
    // What is wrong with the task is known at once. A device that fails later tells the backward.
    if (IsThere(forward)) RETURN_IF_ERROR(forward.get().status());
    stage.SubmitBackward(key, gradient, done);
    // Floats fit always: this fails only where the backward has, and that tells why.
    (void)stage.Fold(key);
    return {};
  }();
  if (!begun.ok()) done(begun);
  return std::move(result);
}

Status SwapStage::Leaving::Wait() {
  Status status = read.valid() ? read.get() : Status();
  stage.reset();
  stage_held.reset();
  const Status moved = transit.Wait();
  held.reset();
  return status.ok() ? moved : status;
}

Status SwapStage::Dismiss(Stage& stage, std::size_t segment, Step step, Leaving* leaving,
                          Contribution* contribution) {
  RETURN_IF_ERROR(leaving->Wait());
  leaving->held = gauge_.Hold(segments_[segment].parameters * sizeof(float));
  std::vector<std::function<Result<GradientSum>()>> reads;
  for (std::size_t g = 0; g < segments_[segment].ranges.size(); ++g) {
    reads.push_back(stage.BeginAccumulator(step, g));
  }
  const auto take = [this, segment, reads = std::move(reads), leaving, contribution]() -> Status {
    for (std::size_t g = 0; g < reads.size(); ++g) {
      ASSIGN_OR_RETURN(const GradientSum sum, reads[g]());
      RETURN_IF_ERROR(
          sums_.Take(segments_[segment].ranges[g], sum.elements, &leaving->transit, contribution));
    }
    return {};
  };
  // The last one stays for the next pass.
  if (!plan_.leaves_beside || segment == first_backward()) {
    RETURN_IF_ERROR(take());
    stage.ReleaseStep(step);
    return {};
  }
  leaving->stage = std::move(stage_);
  leaving->stage_held = std::move(stage_held_);
  leaving->read = std::async(std::launch::async, take);
  return {};
}

void SwapStage::Answer(Passing passing, const Contribution& contribution) {
  const TaskKey& key = passing.task.key;
  Result<BackwardResult> result = BackwardResult();
  if (exact()) {
    result->fits = CheckRange(contribution.magnitudes, key, layout_.slots, ExponentsOf(key.step),
                              contribution_bits_)
                       .ok();
  }
  if (!layout_.slice.embedding) {
    Result<Bytes> gradient = Recoded(*plain_codec_, *gradient_codec_, passing.task.gradient,
                                     passing.kept.payloads.tokens);
    if (gradient.ok()) {
      result->gradient = *std::move(gradient);
    } else {
      result = gradient.status();
    }
  }
  passing.task.done(std::move(result));
}

void SwapStage::Drop(const TaskKey& key) {
  kept_.erase(key);
  if (const std::shared_ptr<Waiting> waiting = FindWaiting(key)) {
    waiting->tasks.erase(key);
    waiting->whole = false;
    waiting_.erase(key);
  }
  const auto is_it = [&](const TaskKey& other) { return other == key; };
  std::erase_if(forwards_, [&](const Forwarding& task) { return is_it(task.key); });
  std::erase_if(backwards_, [&](const Backwarding& task) { return is_it(task.key); });
  DropPassing(is_it);
}

// ---- sums ----

std::vector<int> SwapStage::ExponentsOf(Step step) const {
  std::vector<int> exponents;
  if (!exact()) return exponents;
  const std::optional<SegmentStore::Weights> weights = WeightsOf(ReadBy(step));
  SWARM_CHECK(weights, "exponents of step " + std::to_string(step.value) + " at version " +
                           std::to_string(version_.value));
  for (const ParameterSlot& slot : layout_.slots) {
    exponents.push_back(optim::LowerExponent(contribution_bits_, store_.Scale(slot.name, *weights),
                                             scale_levels_.Of(step)));
  }
  return exponents;
}

std::shared_ptr<SwapStage::Waiting> SwapStage::FindWaiting(const TaskKey& key) const {
  const auto found = waiting_.find(key);
  const bool waits = found != waiting_.end() && !found->second->folded.contains(key);
  return waits ? found->second : nullptr;
}

Status SwapStage::Fold(const TaskKey& key) {
  const std::shared_ptr<Waiting> waiting = FindWaiting(key);
  if (waiting == nullptr) {
    return NotFound("fold: no gradients of " + TaskText(key) + " wait here");
  }
  if (exact()) {
    RETURN_IF_ERROR(CheckRange(waiting->sum.magnitudes, key, layout_.slots, ExponentsOf(key.step),
                               contribution_bits_));
  }
  waiting->folded.insert(key);
  return waiting->IsFolded() ? AddFolded(waiting.get()) : Status();
}

Status SwapStage::AddFolded(Waiting* waiting) {
  if (waiting->folded.empty()) return {};
  const Step step = waiting->folded.begin()->step;
  Contribution sum;
  if (waiting->IsFolded() && waiting->whole) {
    sum = std::exchange(waiting->sum, {});
  } else {
    std::map<TaskKey, Payloads> folded;
    for (const TaskKey& key : waiting->folded) folded.emplace(key, waiting->tasks.at(key));
    RETURN_IF_ERROR(PassAgain(folded, &sum));
  }
  waiting->whole = false;
  if (AllFinite(sum.magnitudes)) {
    RETURN_IF_ERROR(sums_.Add(std::move(sum), step, ExponentsOf(step)));
  } else {
    sums_.MarkNotFinite(step);
  }
  for (const TaskKey& key : std::exchange(waiting->folded, {})) {
    waiting->tasks.erase(key);
    waiting_.erase(key);
  }
  return {};
}

Status SwapStage::PassAgain(const std::map<TaskKey, Payloads>& tasks, Contribution* sum) {
  auto forwards = std::exchange(forwards_, {});
  auto backwards = std::exchange(backwards_, {});
  auto waiting = std::exchange(waiting_, {});
  auto kept = std::exchange(kept_, {});
  auto forward_pass = std::exchange(forward_pass_, {});
  auto backward_pass = std::exchange(backward_pass_, {});
  Status status;
  const auto note = [&](const auto& result) {
    if (status.ok()) status = result.status();
  };
  for (const auto& [key, payloads] : tasks) {
    forwards_.push_back({key, payloads.version, payloads.tokens, payloads.ids,
                         std::make_shared<Parcel>(payloads.input), /*keep=*/true, note});
    backwards_.push_back({key, payloads.gradient, note});
  }
  while (PassOn()) {
  }
  if (status.ok()) *sum = std::move(waiting_.at(tasks.begin()->first)->sum);
  forwards_ = std::move(forwards);
  backwards_ = std::move(backwards);
  waiting_ = std::move(waiting);
  kept_ = std::move(kept);
  forward_pass_ = std::move(forward_pass);
  backward_pass_ = std::move(backward_pass);
  return status;
}

Status SwapStage::AddAllFolded(Step step) {
  std::set<std::shared_ptr<Waiting>> of_step;
  for (const auto& [key, waiting] : waiting_) {
    if (key.step == step) of_step.insert(waiting);
  }
  for (const std::shared_ptr<Waiting>& waiting : of_step) RETURN_IF_ERROR(AddFolded(waiting.get()));
  return {};
}

Status SwapStage::Absorb(Step step, std::uint64_t group, const Bytes& elements, bool finite) {
  return sums_.Absorb(step, group, elements, finite);
}

GradientSum SwapStage::Accumulator(Step step, std::uint64_t group) {
  auto sum = BeginAccumulator(step, group)();
  SWARM_CHECK(sum.ok(), sum.status().message());  // without its disk, the process has no use
  return *std::move(sum);
}

std::function<Result<GradientSum>()> SwapStage::BeginAccumulator(Step step, std::uint64_t group) {
  if (const Status added = AddAllFolded(step); !added.ok()) {
    return [added]() -> Result<GradientSum> { return added; };
  }
  return sums_.BeginRead(step, group, ExponentsOf(step));
}

Status SwapStage::SetScaleLevel(Step step, unsigned level) {
  RETURN_IF_ERROR(scale_levels_.Set(step, level));
  sums_.Erase(step);
  // What was folded into them has gone.
  std::erase_if(waiting_, [&](const auto& entry) {
    const auto& [key, waiting] = entry;
    if (key.step != step || waiting->folded.erase(key) == 0) return false;
    waiting->tasks.erase(key);
    waiting->whole = false;
    return true;
  });
  return {};
}

void SwapStage::ReleaseStep(Step step) {
  DropPassing([&](const TaskKey& key) { return key.step == step; });
  std::erase_if(kept_, [&](const auto& entry) { return entry.first.step == step; });
  std::erase_if(waiting_, [&](const auto& entry) { return entry.first.step == step; });
  sums_.Erase(step);
  scale_levels_.Forget(step);
}

Status SwapStage::Apply(std::span<const Bytes> sums, double clip, double learning_rate, bool skip) {
  Settle();
  if (!held_) return FailedPrecondition("apply: this stage has no weights; load some");
  if (!skip) RETURN_IF_ERROR(CheckSums(sums, layout_.groups, options_.accumulation));
  readers_.AwaitNone();
  const std::size_t tensors = store_.size();
  Leave();  // the memory is the update's
  if (skip) {
    for (const Segment& segment : segments_) store_.KeepWeights(segment);
  } else {
    held_ = false;
    ReleaseTensorMemory();  // an update computes in the tier's memory
    RETURN_IF_ERROR(Update(sums, clip, learning_rate));
    tier::ReleaseMemory();  // and a pass has pieces of other sizes
    held_ = true;
  }
  store_.EndUpdate();
  version_ = version_.Next();
  if (store_.size() != tensors)
    RETURN_IF_ERROR(store_.FindPieces());  // the first with two versions
  DropGraphs();
  return {};
}

void SwapStage::SubmitApply(std::vector<Bytes> sums, double clip, double learning_rate, bool skip,
                            std::function<void(Status)> done) {
  Settle();
  if (skip || !held_ || !plan_.updates_beside) {
    return done(Apply(sums, clip, learning_rate, skip));
  }
  const Status fit = CheckSums(sums, layout_.groups, options_.accumulation);
  if (!fit.ok()) return done(fit);
  readers_.AwaitNone();
  if (entered_version_ != version_) Leave();
  update_.emplace(UpdateBeside{.sums = std::move(sums),
                               .own = nullptr,
                               .clip = clip,
                               .learning_rate = learning_rate,
                               .done = std::move(done),
                               .tensors = store_.size(),
                               .segments = {},
                               .held = {},
                               .computed = {},
                               .stage = {},
                               .leaving = {}});
  update_->own = sums_.ShownAs(update_->sums);
  for (const Segment& segment : segments_) {
    if (!segment.slots.empty()) update_->segments.push_back(&segment);
  }
  DropGraphs();
  BeginNext();
}

void SwapStage::Settle() {
  while (update_) GoOnUpdating(/*waits=*/true);
}

void SwapStage::BeginNext() {
  UpdateBeside& update = *update_;
  const Segment& segment = *update.segments[update.at];
  update.held = gauge_.Hold(segment.parameters * SegmentBytes(options_.precision));
  const auto coming = std::make_shared<Updating>(BeginUpdate(segment, update.sums, update.own));
  update.computed = std::async(
      std::launch::async, [this, &segment, coming, clip = update.clip, rate = update.learning_rate,
                           level = scale_levels_.Of(Step(version_.value))] {
        return Updated(segment, std::move(*coming), clip, rate, level);
      });
}

void SwapStage::GoOnUpdating(bool waits) {
  using std::chrono::seconds;
  while (update_) {
    const bool ready = update_->computed.valid()
                           ? update_->computed.wait_for(seconds(0)) == std::future_status::ready
                           : update_->leaving.IsOver();
    if (!ready && !waits) return;
    const Status status = GoOn();
    if (!status.ok() || update_->at == update_->segments.size()) return End(status);
    if (waits && update_->computed.valid()) return;
  }
}

Status SwapStage::GoOn() {
  UpdateBeside& update = *update_;
  if (update.computed.valid()) {
    ASSIGN_OR_RETURN(update.stage, update.computed.get());
    const Segment& segment = *update.segments[update.at];
    store_.KeepWeights(segment);
    return store_.Store(segment, *update.stage, /*whole=*/false, &update.leaving);
  }
  RETURN_IF_ERROR(update.leaving.Wait());
  update.stage.reset();
  update.held.reset();
  if (++update.at < update.segments.size()) BeginNext();
  return {};
}

void SwapStage::End(Status status) {
  const auto done = std::move(update_->done);
  const bool first = store_.size() != update_->tensors;  // with two versions
  update_.reset();
  store_.EndUpdate();
  held_ = status.ok();
  if (status.ok()) {
    version_ = version_.Next();
    if (first) status = store_.FindPieces();
    DropGraphs();
  }
  done(status);
}

Result<std::unique_ptr<Stage>> SwapStage::Updated(const Segment& segment, Updating now, double clip,
                                                  double learning_rate, unsigned level) const {
  ASSIGN_OR_RETURN(auto stage,
                   store_.Take(segment, Purpose::kUpdate, version_, std::move(now.state)));
  RETURN_IF_ERROR(now.coming.Wait());
  RETURN_IF_ERROR(stage->SetScaleLevel(Step(version_.value), level));
  RETURN_IF_ERROR(stage->Apply(now.sums, clip, learning_rate, /*skip=*/false));
  return stage;
}

Status SwapStage::Update(std::span<const Bytes> sums, double clip, double learning_rate) {
  const Step step(version_.value);
  const std::vector<TierSum>* const own = sums_.ShownAs(sums);
  // Of a segment that is updated, or comes, or leaves, with its sums.
  const std::uint64_t each =
      plan_.largest * (SegmentBytes(options_.precision) + ElementBytes(options_.accumulation));
  const bool beside = 2 * each <= options_.swap.memory;
  const bool leaves_beside = 3 * each <= options_.swap.memory;
  const auto has_slots = [](const Segment& segment) { return !segment.slots.empty(); };
  auto updated = segments_ | std::views::filter(has_slots);
  Updating next = BeginUpdate(updated.front(), sums, own);
  std::shared_ptr<const void> leaving_held;
  std::unique_ptr<Stage> leaving_stage;
  Transit leaving;  // waits for it, before the stage goes
  for (auto at = updated.begin(); at != updated.end(); ++at) {
    const Segment& segment = *at;
    const auto begin_next = [&] {
      if (const auto after = std::next(at); after != updated.end()) {
        next = BeginUpdate(*after, sums, own);
      }
    };
    Updating now = std::move(next);
    auto held = gauge_.Hold(segment.parameters * SegmentBytes(options_.precision));
    ASSIGN_OR_RETURN(auto stage,
                     store_.Take(segment, Purpose::kUpdate, version_, std::move(now.state)));
    RETURN_IF_ERROR(now.coming.Wait());
    if (beside) begin_next();
    RETURN_IF_ERROR(stage->SetScaleLevel(step, scale_levels_.Of(step)));
    RETURN_IF_ERROR(stage->Apply(now.sums, clip, learning_rate, /*skip=*/false));
    now = {};
    if (!beside) begin_next();
    RETURN_IF_ERROR(leaving.Wait());
    leaving_stage = std::move(stage);
    leaving_held = std::move(held);
    store_.KeepWeights(segment);
    RETURN_IF_ERROR(store_.Store(segment, *leaving_stage, /*whole=*/false, &leaving));
    if (leaves_beside) continue;
    RETURN_IF_ERROR(leaving.Wait());
    leaving_stage.reset();
    leaving_held.reset();
  }
  return leaving.Wait();
}

SwapStage::Updating SwapStage::BeginUpdate(const Segment& segment, std::span<const Bytes> sums,
                                           const std::vector<TierSum>* own) {
  const std::uint64_t element = ElementBytes(options_.accumulation);
  Updating updating;
  updating.state = store_.Bring(segment, Purpose::kUpdate, SegmentStore::Weights::kNewest);
  for (const Segment::Range& range : segment.ranges) {
    updating.sums.push_back(
        own ? (*own)[range.group].Bring(range.offset, range.count, &updating.coming)
            : sums[range.group].Slice(range.offset * element, range.count * element));
  }
  if (own) updating.held = gauge_.Hold(segment.parameters * element);
  return updating;
}

void SwapStage::DropGraphs() {
  std::erase_if(kept_, [&](const auto& entry) { return !Holds(entry.second.payloads.version); });
}

// ---- texts ----

Result<Bytes> SwapStage::Logits(Version, const TokenBatch&) {
  return FailedPrecondition("logits: a stage that is swapped has none; take residency Resident");
}

Result<std::unique_ptr<Reading>> SwapStage::BeginReading(Version) {
  return FailedPrecondition(
      "reading: a stage that is swapped reads no texts; take residency"
      " Resident");
}

}  // namespace swarm::model
