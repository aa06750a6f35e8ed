#include "ctl/model/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace swarm::ctl {
namespace {

const std::vector<float> kLogits{1.0F, 3.0F, 2.0F, 3.0F, -4.0F};

std::map<std::int32_t, int> Draw(const SamplingOptions& options, int times) {
  Rng rng(7);
  std::map<std::int32_t, int> drawn;
  for (int i = 0; i < times; ++i) {
    const auto id = SampleToken(kLogits, options, rng);
    EXPECT_TRUE(id.ok()) << id.status().ToString();
    ++drawn[*id];
  }
  return drawn;
}

TEST(SamplingTest, TemperatureZeroTakesTheFirstOfTheMostLikely) {
  EXPECT_EQ(Draw({.temperature = 0}, 20), (std::map<std::int32_t, int>{{1, 20}}));
}

TEST(SamplingTest, TopKLeavesTheOthersOut) {
  const auto drawn = Draw({.temperature = 1, .top_k = 2}, 1000);
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_NEAR(drawn.at(1), 500, 100);
  EXPECT_NEAR(drawn.at(3), 500, 100);
}

TEST(SamplingTest, TopPKeepsTheFewestThatReachIt) {
  // At temperature 1 both threes have 0.40 each, the two 0.15, the one 0.05.
  const auto of = [](double top_p, std::uint64_t top_k = 0) {
    std::vector<std::int32_t> ids;
    const auto drawn = Draw({.temperature = 1, .top_k = top_k, .top_p = top_p}, 1000);
    for (const auto& [id, count] : drawn) ids.push_back(id);
    return ids;
  };
  EXPECT_EQ(of(0.0), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(of(0.3), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(of(0.7), (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(of(0.9), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(of(0.45, /*top_k=*/2), (std::vector<std::int32_t>{1}));
}

TEST(SamplingTest, DrawsWithTheSoftmaxOfTheLogits) {
  const auto drawn = Draw({.temperature = 2, .top_k = 0}, 20000);
  double total = 0;
  for (const float logit : kLogits) total += std::exp(logit / 2);
  for (std::size_t i = 0; i < kLogits.size(); ++i) {
    EXPECT_NEAR(drawn.at(static_cast<std::int32_t>(i)), 20000 * std::exp(kLogits[i] / 2) / total,
                350)
        << i;
  }
}

TEST(SamplingTest, RefusesLogitsThatAreNotFinite) {
  Rng rng(1);
  const std::vector<float> logits{1.0F, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(SampleToken(logits, {}, rng).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace swarm::ctl
