// A stage whose tensors are a few whole numbers, for swarms in virtual time: its losses depend on
// every bit of every input, weight and sum, so a microbatch that is lost, doubled or computed with
// other weights changes them. Sums of whole numbers are exact in floats, in any order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/rng.h"
#include "base/virtual_time.h"
#include "worker/model/layout/layout.h"
#include "worker/model/stage.h"

namespace swarm::tests {

class ToyStage final : public model::Stage {
 public:
  using Costs = std::function<Duration()>;  ///< of a forward or backward
  /// `parameters`: floats. `boundary_bytes`: at least 8.
  struct Size {
    std::uint64_t parameters = 256, boundary_bytes = 256;
  };

  ToyStage(const model::StageOptions& options, Size size, Costs costs)
      : options_(options),
        size_(size),
        costs_(std::move(costs)),
        groups_{{protocol::GroupIndex(options.stage), size.parameters}} {
    // As many as the real stage has, since the trainer knows of those.
    const auto layout = model::ComputeParameterLayout(
        options.config, options.stage, options.stage_count, options.boundary, options.lora);
    SWARM_CHECK(layout.ok(), "a toy of no model");
    const auto parts = static_cast<std::uint64_t>(
        std::ranges::count(layout->slots, 0u, &model::ParameterSlot::group));
    for (std::uint64_t p = 0; p < parts; ++p) {
      const std::uint64_t begin = size.parameters * p / parts;
      const std::uint64_t count = size.parameters * (p + 1) / parts - begin;
      parameters_.push_back({"toy." + std::to_string(options.stage) + "." + std::to_string(p),
                             {static_cast<std::int64_t>(count)},
                             0,
                             begin,
                             count});
    }
  }

  const std::vector<model::ParameterSlot>& parameters() const override { return parameters_; }
  const std::vector<model::ParameterSlot>& frozen() const override { return frozen_; }
  const std::vector<model::ParameterGroup>& groups() const override { return groups_; }
  model::Version version() const override { return version_; }

  void InitRandom(std::uint64_t seed) override {
    weights_.clear();
    version_ = model::Version(0);
    std::vector<float>& weights = weights_[version_];
    for (std::uint64_t i = 0; i < size_.parameters; ++i) {
      weights.push_back(static_cast<float>(MixAll(seed, options_.stage, i) % kWeightMax));
    }
    for (std::uint64_t p = 0; p < parts(); ++p) moments_[p].assign(parameters_[p].count, 1);
  }
  Status Load(const checkpoint::TensorLookup& tensors, model::Version version, bool) override {
    weights_.clear();
    moments_.clear();
    version_ = version;
    const auto take = [&](const std::string& name, std::vector<float>& to, std::uint64_t at,
                          std::uint64_t count) -> Status {
      ASSIGN_OR_RETURN(const auto tensor, tensors(name));
      if (tensor.data.size() != count * sizeof(float)) return DataLoss(name);
      to.resize(std::max(to.size(), at + count));
      std::memcpy(to.data() + at, tensor.data.data(), tensor.data.size());
      return Status();
    };
    for (std::uint64_t p = 0; p < parts(); ++p) {
      const auto& [name, at, count] =
          std::tie(parameters_[p].name, parameters_[p].offset, parameters_[p].count);
      RETURN_IF_ERROR(take(name, weights_[version], at, count));
      const Status moments = take("optimizer.exp_avg." + name, moments_[p], 0, count);
      if (options_.divided && moments.code() == StatusCode::kNotFound) {
        moments_.erase(p);
      } else {
        RETURN_IF_ERROR(moments);
      }
      if (!delayed() || version.value == 0) continue;
      RETURN_IF_ERROR(
          take("previous." + name, weights_[model::Version(version.value - 1)], at, count));
    }
    return Status();
  }
  std::vector<checkpoint::NamedTensor> State() const override {
    std::vector<checkpoint::NamedTensor> tensors;
    for (std::uint64_t p = 0; p < parts(); ++p) {
      tensors.push_back(TensorOf("", p, version_));
      if (!options_.divided) tensors.push_back(MomentsOf(p));
      if (!delayed() || version_.value == 0) continue;
      tensors.push_back(TensorOf("previous.", p, model::Version(version_.value - 1)));
    }
    std::ranges::sort(tensors, {}, &checkpoint::NamedTensor::name);
    return tensors;
  }
  bool HoldsPart(std::uint64_t part) const override { return moments_.contains(part); }
  std::uint64_t MomentBytes(std::uint64_t part) const override {
    return parameters_[part].count * sizeof(float);
  }
  std::vector<checkpoint::NamedTensor> PartState(std::uint64_t part) const override {
    std::vector<checkpoint::NamedTensor> tensors{TensorOf("", part, version_)};
    if (HoldsPart(part)) tensors.push_back(MomentsOf(part));
    return tensors;
  }
  Status TakeMoments(std::uint64_t part, const Bytes& bytes) override {
    if (bytes.size() != MomentBytes(part)) return InvalidArgument("moments of another size");
    std::vector<float>& moments = moments_[part];
    moments.resize(parameters_[part].count);
    std::memcpy(moments.data(), bytes.data(), bytes.size());
    return Status();
  }

  void SubmitForward(const model::TaskKey& key, model::Version version,
                     const model::TokenBatch& tokens, const Bytes& input, bool keep_graph,
                     model::Done<model::ForwardResult> done) override {
    done(RunForward(key, version, tokens, input, keep_graph));
  }
  void SubmitBackward(const model::TaskKey& key, const Bytes& gradient,
                      model::Done<model::BackwardResult> done) override {
    done(RunBackward(key, gradient));
  }
  Status Fold(const model::TaskKey& key) override {
    const auto gradient = gradients_.extract(key);
    if (gradient.empty()) return NotFound("no gradients");
    std::vector<float> copy = SumOf(key.step);
    for (std::uint64_t i = 0; i < size_.parameters; ++i) copy[i] += Element(gradient.mapped(), i);
    sums_[key.step] = std::move(copy);
    return Status();
  }
  Status Absorb(model::Step step, std::uint64_t, const Bytes& elements, bool) override {
    if (elements.size() != size_.parameters * sizeof(float)) return InvalidArgument("a sum");
    std::vector<float> sum = SumOf(step);
    for (std::uint64_t i = 0; i < size_.parameters; ++i) sum[i] += At(elements, i);
    sums_[step] = std::move(sum);
    return Status();
  }
  void Drop(const model::TaskKey& key) override {
    graphs_.erase(key);
    gradients_.erase(key);
  }
  model::GradientSum Accumulator(model::Step step, std::uint64_t) override {
    const std::vector<float> sum = SumOf(step);
    return {.elements = Bytes::Copy(sum.data(), sum.size() * sizeof(float)), .exponents = {}};
  }
  Status SetScaleLevel(model::Step step, unsigned) override {
    sums_.erase(step);
    return Status();
  }
  unsigned ScaleLevel(model::Step) const override { return 0; }
  void ReleaseStep(model::Step step) override {
    sums_.erase(step);
    std::erase_if(graphs_, [&](const auto& entry) { return entry.first.step == step; });
    std::erase_if(gradients_, [&](const auto& entry) { return entry.first.step == step; });
  }
  Status Apply(std::span<const Bytes> sums, double clip, double rate, bool skip) override {
    const model::Division all{std::vector<bool>(parts(), true), {}};
    RETURN_IF_ERROR(BeginApply(sums, clip, rate, skip, all).status());
    return FinishApply({});
  }
  Result<std::vector<Bytes>> BeginApply(std::span<const Bytes> sums, double, double, bool skip,
                                        const model::Division& division) override {
    std::vector<Bytes> made(parts());
    next_ = weights_.at(version_);
    own_ = division.own;
    for (std::uint64_t p = 0; p < parts(); ++p) {
      const auto& [at, count] = std::tie(parameters_[p].offset, parameters_[p].count);
      if (!own_[p]) continue;
      if (!HoldsPart(p)) return InvalidArgument("the moments are not here");
      for (std::uint64_t i = 0; i < count && !skip; ++i) {
        const auto sum = static_cast<std::int64_t>(At(sums[0], at + i)) + kGradientMax * 65536;
        float& moment = moments_[p][i];
        moment = Turn(moment, 3, static_cast<std::uint64_t>(sum));
        next_[at + i] = Turn(next_[at + i], 5, static_cast<std::uint64_t>(moment));
      }
      if (!skip) made[p] = Bytes::Copy(next_.data() + at, count * sizeof(float));
    }
    return made;
  }
  Status FinishApply(std::span<const Bytes> weights) override {
    for (std::uint64_t p = 0; p < parts(); ++p) {
      if (own_[p]) continue;
      moments_.erase(p);
      if (p >= weights.size() || weights[p].empty()) continue;  // the step is skipped
      std::memcpy(next_.data() + parameters_[p].offset, weights[p].data(), weights[p].size());
    }
    const std::uint64_t keeps = delayed() ? 1 : 0;
    version_ = version_.Next();
    weights_[version_] = std::move(next_);
    std::erase_if(weights_,
                  [&](const auto& entry) { return entry.first.value + keeps < version_.value; });
    std::erase_if(graphs_,
                  [&](const auto& entry) { return !weights_.contains(entry.second.version); });
    return Status();
  }
  Result<Bytes> Logits(model::Version, const model::TokenBatch&) override {
    return FailedPrecondition("a toy has no logits");
  }
  Result<std::unique_ptr<model::Reading>> BeginReading(model::Version) override {
    return FailedPrecondition("a toy has no logits");
  }

 private:
  Result<model::ForwardResult> RunForward(const model::TaskKey& key, model::Version version,
                                          const model::TokenBatch& tokens, const Bytes& input,
                                          bool keep_graph) {
    if (graphs_.contains(key) || gradients_.contains(key)) return AlreadyExists("a graph");
    if (!weights_.contains(version)) return NotFound("the version is gone");
    if (options_.stage > 0 && input.size() != size_.boundary_bytes) return DataLoss("an input");
    Take();
    std::uint64_t hash = MixAll(options_.stage, WeightsHash(version));
    hash = options_.stage == 0
               ? HashOf(tokens.ids.data(), tokens.ids.size() * sizeof(std::int32_t), hash)
               : HashOf(input.data(), input.size(), hash);
    if (keep_graph) graphs_[key] = {version, hash};
    if (!last()) return model::ForwardResult{Payload(hash), 0.0};
    return model::ForwardResult{{}, static_cast<double>(hash % 1'000'003) / 1'000'003};
  }
  Result<model::BackwardResult> RunBackward(const model::TaskKey& key, const Bytes& gradient) {
    if (!graphs_.contains(key)) return NotFound("no graph");
    if (!last() && gradient.size() != size_.boundary_bytes) return DataLoss("a gradient");
    Take();
    std::uint64_t hash = graphs_.at(key).hash;
    if (!last()) hash = HashOf(gradient.data(), gradient.size(), hash);
    graphs_.erase(key);
    gradients_[key] = hash;
    return model::BackwardResult{options_.stage == 0 ? Bytes() : Payload(Mix(hash))};
  }
  std::uint64_t parts() const { return parameters_.size(); }
  static constexpr std::uint64_t kWeightMax = 65536;
  static constexpr std::int64_t kGradientMax = 100;
  struct Graph {
    model::Version version;
    std::uint64_t hash = 0;
  };

  static std::uint64_t HashOf(const void* data, std::size_t size, std::uint64_t key) {
    return MixName(key, {static_cast<const char*>(data), size});
  }
  static float Turn(float value, std::uint64_t factor, std::uint64_t by) {
    return static_cast<float>((static_cast<std::uint64_t>(value) * factor + by) % kWeightMax);
  }
  checkpoint::NamedTensor TensorOf(const std::string& prefix, std::uint64_t part,
                                   model::Version of) const {
    const model::ParameterSlot& slot = parameters_[part];
    return {prefix + slot.name, checkpoint::ElementType::kF32, slot.shape,
            Bytes::Copy(weights_.at(of).data() + slot.offset, slot.count * sizeof(float))};
  }
  checkpoint::NamedTensor MomentsOf(std::uint64_t part) const {
    const model::ParameterSlot& slot = parameters_[part];
    return {"optimizer.exp_avg." + slot.name, checkpoint::ElementType::kF32, slot.shape,
            Bytes::Copy(moments_.at(part).data(), slot.count * sizeof(float))};
  }
  static float At(const Bytes& elements, std::uint64_t i) {
    float value = 0;
    std::memcpy(&value, elements.data() + i * sizeof(float), sizeof(float));
    return value;
  }
  /// Element i of a microbatch's gradient.
  static float Element(std::uint64_t hash, std::uint64_t i) {
    const auto value = static_cast<std::int64_t>(MixAll(hash, i % 64) % (2 * kGradientMax + 1));
    return static_cast<float>(value - kGradientMax);
  }
  bool last() const { return options_.stage + 1 == options_.stage_count; }
  bool delayed() const { return options_.step_mode == api::StepMode::kDelayed; }
  void Take() const {
    if (VirtualTime* const time = VirtualTime::Current()) time->Spend(costs_());
  }
  std::uint64_t WeightsHash(model::Version version) const {
    const std::vector<float>& weights = weights_.at(version);
    return HashOf(weights.data(), weights.size() * sizeof(float), 1);
  }
  Bytes Payload(std::uint64_t hash) const {
    std::vector<std::uint64_t> words(size_.boundary_bytes / sizeof(hash));
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = MixAll(hash, i);
    return Bytes::Copy(words.data(), size_.boundary_bytes);
  }
  std::vector<float> SumOf(model::Step step) const {
    const auto sum = sums_.find(step);
    return sum == sums_.end() ? std::vector<float>(size_.parameters) : sum->second;
  }

  const model::StageOptions options_;
  const Size size_;
  const Costs costs_;
  const std::vector<model::ParameterGroup> groups_;
  std::vector<model::ParameterSlot> parameters_;
  const std::vector<model::ParameterSlot> frozen_;
  std::map<std::uint64_t, std::vector<float>> moments_;  // by part that is held
  std::vector<float> next_;                              // between the halves of an update
  std::vector<bool> own_;
  model::Version version_;
  std::map<model::Version, std::vector<float>> weights_;
  std::map<model::TaskKey, Graph> graphs_;
  std::map<model::TaskKey, std::uint64_t> gradients_;
  std::map<model::Step, std::vector<float>> sums_;
};

}  // namespace swarm::tests
