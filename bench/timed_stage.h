// A simulated stage of a model: a microbatch's forward and backward take the time that the options
// name (the thread sleeps), and their outputs have the size of real ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "worker/model/stage.h"
#include "worker/protocol/messages/data.h"

namespace swarm::stage {

using protocol::TaskKey;

struct Timing {
  Duration forward{}, backward{};      ///< of a microbatch
  std::uint64_t boundary_bytes = 0;    ///< of a microbatch, in each direction
  std::uint64_t parameters = 1;        ///< what a reduce sums
  std::function<void()> on_fold = {};  ///< called on the compute thread
};

/// A model of one tensor that never changes.
class TimedStage final : public model::Stage {
 public:
  TimedStage(const Timing& timing, const model::StageOptions& options)
      : timing_(timing),
        is_first_(options.stage == 0),
        is_last_(options.stage + 1 == options.stage_count),
        is_delayed_(options.step_mode == api::StepMode::kDelayed || options.local.overlaps),
        boundary_(Zeros(timing.boundary_bytes)),
        sum_(Zeros(timing.parameters * sizeof(float))),
        groups_{{protocol::GroupIndex(options.stage), timing.parameters}},
        parameters_{
            {kName, {static_cast<std::int64_t>(timing.parameters)}, 0, 0, timing.parameters}} {}

  const std::vector<model::ParameterSlot>& parameters() const override { return parameters_; }
  const std::vector<model::ParameterSlot>& frozen() const override { return frozen_; }
  const std::vector<model::ParameterGroup>& groups() const override { return groups_; }
  model::Version version() const override { return version_; }
  void InitRandom(std::uint64_t) override {}
  Status Load(const checkpoint::TensorLookup&, model::Version version, bool) override {
    version_ = version;
    return Status();
  }
  std::vector<checkpoint::NamedTensor> State() const override {
    std::vector<checkpoint::NamedTensor> tensors = {
        {kName, checkpoint::ElementType::kF32, parameters_[0].shape, sum_}};
    if (is_delayed_ && version_.value > 0) {
      tensors.push_back({std::string("previous.") + kName, checkpoint::ElementType::kF32,
                         parameters_[0].shape, sum_});
    }
    return tensors;
  }

  void SubmitForward(const TaskKey& key, model::Version version, const model::TokenBatch& tokens,
                     const Bytes& input, bool keep_graph,
                     model::Done<model::ForwardResult> done) override {
    done(RunForward(key, version, tokens, input, keep_graph));
  }
  void SubmitBackward(const TaskKey& key, const Bytes& gradient,
                      model::Done<model::BackwardResult> done) override {
    done(RunBackward(key, gradient));
  }
  Status Fold(const TaskKey& key) override {
    if (gradients_.erase(key) == 0) return NotFound("no gradients");
    if (timing_.on_fold) timing_.on_fold();
    return Status();
  }
  Status Absorb(model::Step, std::uint64_t, const Bytes&, bool) override { return Status(); }
  void Drop(const TaskKey& key) override {
    graphs_.erase(key);
    gradients_.erase(key);
  }
  model::GradientSum Accumulator(model::Step, std::uint64_t) override {
    return {.elements = sum_, .exponents = {}};
  }
  Status SetScaleLevel(model::Step, unsigned) override { return Status(); }
  unsigned ScaleLevel(model::Step) const override { return 0; }
  void ReleaseStep(model::Step step) override {
    const auto over = [&](const TaskKey& key) { return key.step <= step; };
    std::erase_if(graphs_, over);
    std::erase_if(gradients_, over);
  }
  Status Apply(std::span<const Bytes>, double, double, bool) override {
    version_ = version_.Next();
    return Status();
  }
  Result<Bytes> Logits(model::Version, const model::TokenBatch&) override {
    return FailedPrecondition("a timed stage has no logits");
  }
  Result<std::unique_ptr<model::Reading>> BeginReading(model::Version) override {
    return FailedPrecondition("a timed stage has no logits");
  }

 private:
  Result<model::ForwardResult> RunForward(const TaskKey& key, model::Version,
                                          const model::TokenBatch&, const Bytes& input,
                                          bool keep_graph) {
    if (!is_first_ && input.size() != boundary_.size()) return DataLoss("an activation's size");
    std::this_thread::sleep_for(timing_.forward);
    if (keep_graph) graphs_.insert(key);
    return model::ForwardResult{is_last_ ? Bytes() : boundary_, is_last_ ? 1.0 : 0.0};
  }
  Result<model::BackwardResult> RunBackward(const TaskKey& key, const Bytes& gradient) {
    if (graphs_.erase(key) == 0) return NotFound("no graph");
    if (!is_last_ && gradient.size() != boundary_.size()) return DataLoss("a gradient's size");
    std::this_thread::sleep_for(timing_.backward);
    gradients_.insert(key);
    return model::BackwardResult{is_first_ ? Bytes() : boundary_};
  }
  static constexpr const char* kName = "timed";
  static Bytes Zeros(std::size_t size) {
    return Bytes::Make(size, [size](std::byte* to) { std::fill_n(to, size, std::byte{0}); });
  }

  const Timing timing_;
  const bool is_first_, is_last_, is_delayed_;
  const Bytes boundary_, sum_;
  const std::vector<model::ParameterGroup> groups_;
  const std::vector<model::ParameterSlot> parameters_;
  const std::vector<model::ParameterSlot> frozen_;
  model::Version version_;
  std::set<TaskKey> graphs_, gradients_;
};

}  // namespace swarm::stage
