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
