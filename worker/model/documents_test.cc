// Documents that share a sequence and do not see each other are as documents apart.
#include <gtest/gtest.h>

#include "worker/model/testing/boundaries.h"
#include "worker/token.h"

namespace swarm::model {
namespace {

using testing::Pipeline;
using testing::RelativeDistance;

constexpr std::uint32_t kLength = 12;  // of a sequence, without the last label
// Of the documents in two sequences; each sequence has a token more, which is a label alone.
const std::vector<std::vector<std::uint32_t>> kDocuments{{5, 1, 6}, {12}, {3, 9}};

StageOptions Options(bool windows) {
  StageOptions options{.config = testing::SmallConfig(), .seed = 3};
  options.config.attention_input_bias = true;
  if (windows) {
    for (int i = 0; i < 5; ++i) options.config.layers.push_back({.window = i % 2 == 0 ? 4 : 0});
  }
  return options;
}

Pipeline Started(const StageOptions& options, std::uint64_t stages) {
  Pipeline pipeline(options, stages);
  pipeline.InitRandom(options.seed);
  return pipeline;
}

struct Packed {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<std::int32_t>> documents;  // ids, each with the last one's label
};

/// No document predicts the first token of the next.
Packed Pack() {
  Packed packed;
  Rng rng(7);
  const auto draw = [&] { return static_cast<std::int32_t>(rng.Below(50)); };
  for (const auto& lengths : kDocuments) {
    for (const std::uint32_t length : lengths) {
      packed.documents.emplace_back();
      for (std::uint32_t i = 0; i < length; ++i) {
        const Token token{.id = draw(), .begins = i == 0, .learned = i > 0};
        packed.tokens.push_back(token.Write());
        packed.documents.back().push_back(token.id);
      }
    }
    packed.tokens.push_back(Token{.id = draw(), .learned = false}.Write());
  }
  return packed;
}

class DocumentsTest : public ::testing::TestWithParam<bool> {};

TEST_P(DocumentsTest, LossAndGradientsAreThoseOfDocumentsApart) {
  const StageOptions options = Options(GetParam());
  const Packed packed = Pack();
  const auto rows = static_cast<std::uint32_t>(kDocuments.size());
  Pipeline apart = Started(options, 1);
  const double labels = rows * kLength;
  double loss = 0;
  std::map<std::string, std::vector<float>> expected;
  for (std::uint64_t d = 0; d < packed.documents.size(); ++d) {
    const auto& ids = packed.documents[d];
    if (ids.size() < 2) continue;  // it has no label
    // A sum of nats by the number of labels becomes one by the number of all labels.
    const double weight = static_cast<double>(ids.size() - 1) / labels;
    loss +=
        weight * apart.Train(d, 0, Version(0), {1, static_cast<std::uint32_t>(ids.size()), ids});
    for (const auto& [name, gradient] : apart.Gradients(d)) {
      auto& sum = expected[name];
      sum.resize(gradient.size());
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += static_cast<float>(weight) * gradient[i];
    }
    apart.stage(0).ReleaseStep(Step(d));
  }
  for (const auto recompute :
       {api::Recompute::kNone, api::Recompute::kLayers, api::Recompute::kFull}) {
    for (const std::uint64_t stages : {1, 3}) {
      StageOptions again = options;
      again.recompute = recompute;
      Pipeline together = Started(again, stages);
      EXPECT_NEAR(together.Train(0, 0, Version(0), {rows, kLength + 1, packed.tokens}), loss, 1e-6);
      for (const auto& [name, gradient] : together.Gradients(0)) {
        EXPECT_LT(RelativeDistance(gradient, expected.at(name)), 1e-5) << name;
      }
    }
  }
}

TEST_P(DocumentsTest, WithoutMarksTokensSeeEarlierDocuments) {
  Packed packed = Pack();
  for (std::int32_t& token : packed.tokens) {
    Token plain = Token::Read(token);
    plain.begins = false;
    token = plain.Write();
  }
  const auto rows = static_cast<std::uint32_t>(kDocuments.size());
  Pipeline pipeline = Started(Options(GetParam()), 1);
  const TokenBatch joined{rows, kLength + 1, packed.tokens};
  const double loss = pipeline.Forward(0, 0, Version(0), joined, /*keep_graph=*/false);
  const Packed marked = Pack();
  const TokenBatch separate{rows, kLength + 1, marked.tokens};
  EXPECT_GT(std::abs(pipeline.Forward(0, 1, Version(0), separate, /*keep_graph=*/false) - loss),
            1e-4);
}

INSTANTIATE_TEST_SUITE_P(, DocumentsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Windows" : "All"; });

}  // namespace
}  // namespace swarm::model
