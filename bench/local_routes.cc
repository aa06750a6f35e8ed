// Measures what the route of a microbatch means where replicas take steps of their own and the
// model has two stages of two replicas: fixed columns, in which a replica of the first stage always
// feeds the same one of the second, against routes that are drawn. All in this process, one
// microbatch after the other, so that nothing but the routes differs. For each seed, the validation
// loss of the job's weights, and the mean cosine of what the two replicas of a stage move in a
// round. Usage: local_routes TEXT [STEPS=5000] [INNER=50] [SEEDS=3]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "base/rng.h"
#include "worker/model/stage.h"

namespace swarm::model {
namespace {

constexpr std::uint64_t kStages = 2, kReplicas = 2;
constexpr std::uint32_t kSequences = 4, kTokens = 128;
constexpr double kRate = 3e-3, kWarmupSteps = 100;
constexpr std::uint64_t kValidationBatches = 64;

struct Study {
  std::string text;  ///< bytes to learn
  std::string held_back;
  std::uint64_t steps;  ///< of each replica
  std::uint64_t inner;  ///< of a round
};

double LearningRate(const Study& study, Version round) {
  const double step = static_cast<double>(round.value * study.inner);
  const double part = step / static_cast<double>(study.steps);
  return kRate * std::min(1.0, (step + 1) / kWarmupSteps) *
         (1 + std::cos(std::numbers::pi * part)) / 2;
}

StageOptions OptionsOf(const Study& study, std::uint64_t stage) {
  StageOptions options;
  options.config = {.hidden_size = 64,
                    .num_hidden_layers = 4,
                    .num_attention_heads = 4,
                    .num_key_value_heads = 4,
                    .head_dim = 16,
                    .intermediate_size = 172,
                    .vocab_size = 256};
  options.stage = stage;
  options.stage_count = kStages;
  options.microbatches = kReplicas * study.inner;
  options.step_mode = api::StepMode::kLocal;
  options.local = {.inner_steps = study.inner,
                   .microbatches = 1,
                   .outer_learning_rate = 1,
                   .outer_momentum = 0.5,
                   .max_grad_norm = 1,
                   .learning_rate = [&study](Version round) { return LearningRate(study, round); }};
  return options;
}

void Check(const Status& status) { SWARM_CHECK(status.ok(), status.ToString()); }

/// Sequences of the text, from drawn places.
std::vector<std::int32_t> DrawBatch(const std::string& text, Rng& rng) {
  std::vector<std::int32_t> ids;
  for (std::uint32_t s = 0; s < kSequences; ++s) {
    const std::size_t at = rng.Below(text.size() - kTokens - 1);
    for (std::size_t i = 0; i <= kTokens; ++i) {
      ids.push_back(static_cast<unsigned char>(text[at + i]));
    }
  }
  return ids;
}

using Replicas = std::vector<std::vector<std::unique_ptr<Stage>>>;  ///< by stage

TaskKey KeyOf(std::uint64_t round, std::uint64_t microbatch, std::uint64_t stage) {
  return {protocol::Generation(0),
          Step(round),
          protocol::Microbatch(microbatch),
          protocol::StageIndex(stage),
          {}};
}

TokenBatch BatchOf(const std::vector<std::int32_t>& ids) { return {kSequences, kTokens + 1, ids}; }

void Train(const Replicas& replicas, const std::array<std::uint64_t, kStages>& route,
           std::uint64_t round, std::uint64_t microbatch, const std::vector<std::int32_t>& ids) {
  Bytes boundary, gradient;
  for (std::uint64_t s = 0; s < kStages; ++s) {
    auto result = replicas[s][route[s]]->Forward(KeyOf(round, microbatch, s), Version(round),
                                                 BatchOf(ids), boundary, /*keep_graph=*/true);
    Check(result.status());
    boundary = result->boundary;
  }
  for (std::uint64_t s = kStages; s-- > 0;) {
    Stage& stage = *replicas[s][route[s]];
    auto result = stage.Backward(KeyOf(round, microbatch, s), gradient);
    Check(result.status());
    gradient = *result;
    Check(stage.Fold(KeyOf(round, microbatch, s)));
  }
}

/// Sums and applies what the replicas of each stage have moved; gives the cosine of that, the mean
/// of the stages.
double EndRound(const Replicas& replicas, std::uint64_t round) {
  double cosines = 0;
  for (const auto& of_stage : replicas) {
    std::array<Bytes, kReplicas> moved;
    for (std::uint64_t r = 0; r < kReplicas; ++r) {
      moved[r] = of_stage[r]->Accumulator(Step(round), 0).elements;
    }
    const auto* a = reinterpret_cast<const float*>(moved[0].data());
    const auto* b = reinterpret_cast<const float*>(moved[1].data());
    double both = 0, of_a = 0, of_b = 0;
    const Bytes sum = Bytes::Make(moved[0].size(), [&](std::byte* memory) {
      auto* to = reinterpret_cast<float*>(memory);
      for (std::size_t i = 0; i < moved[0].size() / sizeof(float); ++i) {
        to[i] = a[i] + b[i];
        both += double{a[i]} * b[i];
        of_a += double{a[i]} * a[i];
        of_b += double{b[i]} * b[i];
      }
    });
    cosines += both / std::sqrt(of_a * of_b);
    for (const auto& stage : of_stage) {
      Check(stage->Apply(std::array{sum}, 1, 0, /*skip=*/false));
      stage->ReleaseStep(Step(round));
    }
  }
  return cosines / kStages;
}

double Validate(const Study& study, const Replicas& replicas, std::uint64_t round) {
  Rng rng(0);  // the same sequences each time
  double sum = 0;
  for (std::uint64_t batch = 0; batch < kValidationBatches; ++batch) {
    const std::vector<std::int32_t> ids = DrawBatch(study.held_back, rng);
    Bytes boundary;
    for (std::uint64_t s = 0; s < kStages; ++s) {
      auto result = replicas[s][0]->Forward(KeyOf(round, batch, s), Version(round), BatchOf(ids),
                                            boundary, /*keep_graph=*/false);
      Check(result.status());
      boundary = result->boundary;
      sum += result->loss;
    }
  }
  return sum / kValidationBatches;
}

void Run(const Study& study, bool drawn, std::uint64_t seed) {
  Replicas replicas(kStages);
  for (std::uint64_t s = 0; s < kStages; ++s) {
    for (std::uint64_t r = 0; r < kReplicas; ++r) {
      auto stage = Stage::Create(OptionsOf(study, s));
      Check(stage.status());
      (*stage)->InitRandom(seed);
      replicas[s].push_back(*std::move(stage));
    }
  }
  Rng data(seed), routes(seed + 1'000'000);
  const std::uint64_t rounds = study.steps / study.inner;
  double cosines = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (std::uint64_t m = 0; m < kReplicas * study.inner; m += kReplicas) {
      // Each replica gets one of two microbatches.
      std::array<std::uint64_t, kStages> first{};
      for (std::uint64_t s = 1; drawn && s < kStages; ++s) first[s] = routes.Below(kReplicas);
      for (std::uint64_t i = 0; i < kReplicas; ++i) {
        std::array<std::uint64_t, kStages> route{};
        for (std::uint64_t s = 0; s < kStages; ++s) route[s] = (first[s] + i) % kReplicas;
        Train(replicas, route, round, m + i, DrawBatch(study.text, data));
      }
    }
    cosines += EndRound(replicas, round);
  }
  std::printf("%-8s seed %llu: loss %.4f, cosine of moves %.3f\n", drawn ? "drawn" : "columns",
              static_cast<unsigned long long>(seed), Validate(study, replicas, rounds),
              cosines / static_cast<double>(rounds));
  std::fflush(stdout);
}

}  // namespace
}  // namespace swarm::model

int main(int argc, char** argv) {
  const auto number = [&](int i, std::uint64_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  std::ifstream file(argc > 1 ? argv[1] : "", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.size() < 10'000) {
    std::fprintf(stderr, "local_routes: %s\n",
                 argc > 1 ? "the text has fewer than 10,000 bytes, or cannot be read"
                          : "usage: local_routes TEXT [STEPS=5000] [INNER=50] [SEEDS=3]");
    return 2;
  }
  const std::size_t cut = text.size() / 10 * 9;
  const swarm::model::Study study{text.substr(0, cut), text.substr(cut), number(2, 5000),
                                  std::max<std::uint64_t>(number(3, 50), 1)};
  const std::uint64_t seeds = number(4, 3);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const bool drawn : {false, true}) swarm::model::Run(study, drawn, seed);
  }
}
