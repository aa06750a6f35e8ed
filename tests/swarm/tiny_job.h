// For tests: a job that takes a second, and what its run has written.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "api/model/decoder_config.h"
#include "api/swarmjob.h"
#include "base/testing/temporary_folder.h"
#include "base/time.h"

namespace swarm::tests {

/// A job so small that a step takes milliseconds: 7 layers of width 32 on a text made of words,
/// which is written to `folder`.
inline api::SwarmJob TinyJob(const std::string& folder) {
  const std::string text = folder + "/text.txt";
  if (!std::filesystem::exists(text)) {
    std::ofstream out(text);
    for (int i = 0; i < 2000; ++i) out << "word " << i * i % 97 << (i % 7 == 0 ? "\n" : " and ");
  }
  api::SwarmJob job;
  job.name = "tiny";
  job.spec.model.config = {.hidden_size = 32,
                           .num_hidden_layers = 7,
                           .num_attention_heads = 4,
                           .num_key_value_heads = 2,
                           .head_dim = 8,
                           .intermediate_size = 64,
                           .vocab_size = 256};
  job.spec.data.uri = text;
  job.spec.training = {
      .seed = 7, .maxSteps = 50, .globalBatchSize = 6, .microbatchSize = 1, .sequenceLength = 16};
  job.spec.optimizer.learningRate = 3e-3;
  job.spec.schedule.warmupSteps = 5;
  return job;
}

inline api::SwarmJob TinyJob(const TemporaryFolder& folder) {
  return TinyJob(folder.path().string());
}

inline std::vector<nlohmann::json> ReadLines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// Waits until steps.jsonl has so many lines.
inline void AwaitSteps(const std::string& out_dir, std::ptrdiff_t count) {
  const auto lines = [&] {
    std::ifstream in(out_dir + "/steps.jsonl");
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  };
  const Timepoint end = Clock::now() + std::chrono::minutes(2);
  while (lines() < count && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_GE(lines(), count);
}

inline std::vector<double> Losses(const std::string& out_dir) {
  std::vector<double> losses;
  for (const auto& line : ReadLines(out_dir + "/steps.jsonl")) {
    EXPECT_EQ(line.at("step").get<std::size_t>(), losses.size());
    losses.push_back(line.at("loss").get<double>());
  }
  return losses;
}

/// Of each step the loss and the gradient norm, with all digits.
inline std::vector<std::string> StepBits(const std::string& out_dir) {
  std::vector<std::string> bits;
  for (const auto& line : ReadLines(out_dir + "/steps.jsonl")) {
    EXPECT_EQ(line.at("step").get<std::size_t>(), bits.size());
    bits.push_back(line.at("loss").dump() + " " + line.at("grad_norm").dump());
  }
  return bits;
}

/// Each step is committed once, and each stage has claimed each of its microbatches once. A line
/// that a later trainer has adopted names no claims.
inline void ExpectExactlyOnce(const std::string& out_dir, const api::SwarmJob& job,
                              std::uint64_t stages) {
  std::uint64_t steps = 0;
  for (const auto& line : ReadLines(out_dir + "/ledger.jsonl")) {
    EXPECT_EQ(line.at("step"), steps++);
    if (line.contains("adopted")) continue;
    std::map<std::uint64_t, std::multiset<std::uint64_t>> claims;  // by stage
    for (const auto& group : line.at("groups")) {
      for (const auto& participant : group.at("participants")) {
        for (const std::uint64_t m : participant.at("microbatches")) {
          claims[participant.at("stage")].insert(m);
        }
      }
    }
    std::multiset<std::uint64_t> all;
    for (std::uint64_t m = 0; m < job.microbatches(); ++m) all.insert(m);
    for (std::uint64_t s = 0; s < stages; ++s) EXPECT_EQ(claims[s], all) << "step " << steps - 1;
  }
  EXPECT_EQ(steps, job.spec.training.maxSteps);
}

/// Makes the tiny model one of a family, with everything that the family can switch on.
inline void MakeFamily(api::ModelFamily family, api::DecoderConfig& config) {
  const api::DecoderConfig defaults = api::DefaultsOf(family);
  config.family = family;
  config.attention_input_bias = defaults.attention_input_bias;
  config.head_norms = defaults.head_norms;
  config.post_norms = defaults.post_norms;
  config.unit_offset_gains = defaults.unit_offset_gains;
  config.scaled_embedding = defaults.scaled_embedding;
  config.activation = defaults.activation;
  config.attn_logit_softcapping = defaults.attn_logit_softcapping;
  config.final_logit_softcapping = defaults.final_logit_softcapping;
  config.rope_local_base_freq = defaults.rope_local_base_freq;
  if (family == api::ModelFamily::kLlama) return;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    api::LayerOptions layer{.window = 5};
    if (family == api::ModelFamily::kQwen2 && i < 3) layer.window = 0;
    if (family == api::ModelFamily::kSmolLM3) layer.rotary = i % 2 == 0;
    if (defaults.post_norms && i % 2 == 1) layer.window = 0;
    config.layers.push_back(layer);
  }
}

}  // namespace swarm::tests
