// The boundaries that tests run with, and models with them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "api/format/enum_names.h"
#include "worker/model/fold.h"
#include "worker/model/testing/models.h"

namespace swarm::model::testing {

inline constexpr std::uint64_t kSeed = 7;

/// A boundary by name, and whether the model's head is its embedding.
struct Case {
  std::string name;
  api::Boundary boundary;
  bool tied = false;
};

inline std::vector<Case> Cases() {
  using api::BoundaryCodec;
  const auto with = [](BoundaryCodec codec) {
    return api::Boundary{.codec = codec, .coefficients = api::NumberCodec::kNone};
  };
  std::vector<Case> cases{{"Plain", with(BoundaryCodec::kNone)},
                          {"Bottleneck", with(BoundaryCodec::kBottleneck)},
                          {"Maxout", with(BoundaryCodec::kMaxout)},
                          {"Subspace", with(BoundaryCodec::kSubspace)},
                          {"Anchored", with(BoundaryCodec::kAnchored)}};
  cases[2].boundary.factor = 4;
  cases[3].boundary.rank = cases[4].boundary.rank = 6;
  for (std::size_t i = 0; i < 5; ++i) {
    Case more = cases[i];
    more.name += "TiedAndShared";
    more.tied = more.boundary.sharedLayers = true;
    cases.push_back(more);
  }
  cases.push_back(cases[3]);
  cases.back().name = "SubspaceToTheEnd";
  cases.back().boundary.constrainLast = true;
  cases.push_back(cases[8]);
  cases.back().name = "SubspaceTurning";
  cases.back().boundary.refreshSteps = 1;
  cases.push_back(cases[4]);
  cases.back().name = "AnchoredByFactors";
  cases.back().boundary.tableRank = 5;
  cases.push_back(cases[4]);
  cases.back().name = "AnchoredByThreeTokens";
  cases.back().boundary.anchorTokens = 3;
  cases.push_back(cases.back());
  cases.back().name = "AnchoredByFactorsOfTokens";
  cases.back().boundary.tableRank = 5;
  return cases;
}

/// For suites that run every case with its state on the device and off it.
using CaseAndResidency = std::tuple<Case, api::Residency>;
inline auto WithEachResidency(std::vector<Case> cases) {
  return ::testing::Combine(::testing::ValuesIn(std::move(cases)),
                            ::testing::Values(api::Residency::kResident, api::Residency::kOffload));
}
inline std::string NameOfBoth(const ::testing::TestParamInfo<CaseAndResidency>& info) {
  const auto& [of, residency] = info.param;
  return of.name + std::string(NameOf(residency));
}

/// A model of eight layers, two microbatches a step.
inline StageOptions OptionsOf(const Case& of, std::vector<std::uint64_t> layers) {
  StageOptions options{.config = SmallConfig(), .microbatches = 2, .seed = kSeed};
  options.config.num_hidden_layers = 8;
  options.config.tie_word_embeddings = of.tied;
  options.boundary = of.boundary;
  options.boundary.layers = std::move(layers);
  return options;
}

inline Pipeline MakePipeline(const StageOptions& options, std::uint64_t stages) {
  Pipeline pipeline(options, stages);
  pipeline.InitRandom(kSeed);
  return pipeline;
}

/// The plain model that computes the same as `pipeline`.
inline Pipeline Plain(const StageOptions& options, const Pipeline& pipeline) {
  const auto folded =
      FoldWeights(options.config, options.boundary, options.seed, LookupIn(pipeline.Snapshot()));
  EXPECT_TRUE(folded.ok()) << folded.status().ToString();
  std::map<std::string, checkpoint::NamedTensor> tensors;
  for (const auto& tensor : *folded) tensors[tensor.name] = tensor;
  Pipeline plain({.config = options.config}, 1);
  plain.Load(LookupIn(tensors), Version(0), /*optimizer=*/false);
  return plain;
}

}  // namespace swarm::model::testing
