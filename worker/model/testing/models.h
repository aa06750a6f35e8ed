// Helpers of the tests of this folder: a small model, its batches, and a pipeline of stages in one
// thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "worker/model/stage.h"

namespace swarm::model::testing {

inline api::DecoderConfig SmallConfig() {
  api::DecoderConfig config;
  config.hidden_size = 24;
  config.num_hidden_layers = 5;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 6;
  config.intermediate_size = 40;
  config.vocab_size = 50;
  config.initializer_range = 0.1;
  return config;
}

/// Token ids and the batch that refers to them.
struct Batch {
  std::vector<std::int32_t> ids;
  TokenBatch tokens;
  Batch(std::uint32_t sequences, std::uint32_t columns, std::uint64_t seed, std::int64_t vocabulary)
      : ids(sequences * columns) {
    Rng rng(seed);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(rng.Below(vocabulary));
    tokens = {sequences, columns, ids};
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
};

inline TaskKey KeyOf(std::uint64_t step, std::uint64_t microbatch, std::uint64_t stage = 0) {
  return {protocol::Generation(0),
          Step(step),
          protocol::Microbatch(microbatch),
          protocol::StageIndex(stage),
          {}};
}

template <typename T>
std::span<const T> ElementsOf(const Bytes& bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <typename T>
Bytes Add(const Bytes& a, const Bytes& b) {
  EXPECT_EQ(a.size(), b.size());
  std::vector<T> sum;
  std::ranges::transform(ElementsOf<T>(a), ElementsOf<T>(b), std::back_inserter(sum), std::plus());
  return Bytes::Copy(sum.data(), sum.size() * sizeof(T));
}

inline std::map<std::uint64_t, std::string> TextOf(const std::map<std::uint64_t, Bytes>& sums) {
  std::map<std::uint64_t, std::string> text;
  for (const auto& [group, sum] : sums) text[group] = sum.text();
  return text;
}

/// All stages of a model, executed one after the other.
class Pipeline {
 public:
  Pipeline(StageOptions options, std::uint64_t stage_count) {
    options.stage_count = stage_count;
    for (options.stage = 0; options.stage < stage_count; ++options.stage) {
      Result<std::unique_ptr<Stage>> stage = Stage::Create(options);
      EXPECT_TRUE(stage.ok()) << stage.status().ToString();
      stages_.push_back(std::move(*stage));
    }
  }

  Stage& stage(std::size_t index) { return *stages_[index]; }
  std::size_t size() const { return stages_.size(); }
  void InitRandom(std::uint64_t seed) {
    for (auto& stage : stages_) stage->InitRandom(seed);
  }
  void Load(const checkpoint::TensorLookup& tensors, Version version, bool optimizer) {
    for (auto& stage : stages_) {
      const Status status = stage->Load(tensors, version, optimizer);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }

  double Forward(std::uint64_t step, std::uint64_t microbatch, Version version,
                 const TokenBatch& tokens, bool keep_graph = true) {
    ForwardResult result;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      auto next = stages_[s]->Forward(KeyOf(step, microbatch, s), version, tokens, result.boundary,
                                      keep_graph);
      EXPECT_TRUE(next.ok()) << next.status().ToString();
      if (!next.ok()) return std::nan("");
      result = *next;
    }
    return result.loss;
  }

  void BackwardAndFold(std::uint64_t step, std::uint64_t microbatch) {
    Bytes gradient;
    for (std::size_t s = stages_.size(); s-- > 0;) {
      const TaskKey key = KeyOf(step, microbatch, s);
      Result<Bytes> next = stages_[s]->Backward(key, gradient);
      ASSERT_TRUE(next.ok()) << next.status().ToString();
      gradient = *next;
      const Status folded = stages_[s]->Fold(key);
      ASSERT_TRUE(folded.ok()) << folded.ToString();
    }
  }

  /// The loss of one microbatch, with its gradients folded.
  double Train(std::uint64_t step, std::uint64_t microbatch, Version version,
               const TokenBatch& tokens) {
    const double loss = Forward(step, microbatch, version, tokens);
    BackwardAndFold(step, microbatch);
    return loss;
  }

  /// The sums of a step by job-wide group; those of a shared group are added up.
  std::map<std::uint64_t, Bytes> Reduce(std::uint64_t step) {
    std::map<std::uint64_t, Bytes> sums;
    for (auto& stage : stages_) {
      for (std::size_t g = 0; g < stage->groups().size(); ++g) {
        const GradientSum part = stage->Accumulator(Step(step), g);
        Bytes& sum = sums[stage->groups()[g].index.value];
        if (sum.empty()) {
          sum = part.elements;
        } else if (part.type == checkpoint::ElementType::kF32) {
          sum = Add<float>(sum, part.elements);
        } else {
          sum = Add<std::int64_t>(sum, part.elements);
        }
      }
    }
    return sums;
  }

  /// The gradients of a step by name of the parameter.
  std::map<std::string, std::vector<float>> Gradients(std::uint64_t step) {
    const auto sums = Reduce(step);
    std::map<std::string, std::vector<float>> gradients;
    for (auto& stage : stages_) {
      for (const ParameterSlot& slot : stage->parameters()) {
        const auto sum = ElementsOf<float>(sums.at(stage->groups()[slot.group].index.value));
        const auto begin = sum.begin() + static_cast<std::ptrdiff_t>(slot.offset);
        gradients[slot.name] = {begin, begin + static_cast<std::ptrdiff_t>(slot.count)};
      }
    }
    return gradients;
  }

  /// Reduces, applies and releases a step.
  void Apply(std::uint64_t step, double clip, double learning_rate, bool skip = false) {
    const auto sums = Reduce(step);
    for (auto& stage : stages_) {
      std::vector<Bytes> of_stage;
      for (const ParameterGroup& group : stage->groups()) {
        of_stage.push_back(sums.at(group.index.value));
      }
      const Status status = stage->Apply(of_stage, clip, learning_rate, skip);
      ASSERT_TRUE(status.ok()) << status.ToString();
      stage->ReleaseStep(Step(step));
    }
  }

  /// Everything that the stages' snapshots give, by name.
  std::map<std::string, checkpoint::NamedTensor> Snapshot() const {
    std::map<std::string, checkpoint::NamedTensor> tensors;
    for (const auto& stage : stages_) {
      for (checkpoint::NamedTensor& tensor : stage->Snapshot()) {
        tensors.emplace(tensor.name, std::move(tensor));
      }
    }
    return tensors;
  }

 private:
  std::vector<std::unique_ptr<Stage>> stages_;
};

inline std::vector<float> FloatsOf(const checkpoint::NamedTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

inline checkpoint::TensorLookup LookupIn(std::map<std::string, checkpoint::NamedTensor> tensors) {
  return
      [tensors = std::move(tensors)](const std::string& name) -> Result<checkpoint::NamedTensor> {
        const auto found = tensors.find(name);
        if (found == tensors.end()) return NotFound("no such tensor");
        return found->second;
      };
}

/// |a - b| / |b| over all elements (Euclidean norms).
inline double RelativeDistance(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

}  // namespace swarm::model::testing
