#include "worker/model/numeric_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "worker/model/attention.h"
#include "worker/model/testing/models.h"
#include "worker/protocol/numeric_class.h"

namespace swarm::model {
namespace {

std::string ClassOf(int threads) {
  const Result<std::string> numeric_class = NumericClass(threads, "cpu");
  EXPECT_TRUE(numeric_class.ok()) << numeric_class.status().ToString();
  return *numeric_class;
}

TEST(NumericClassTest, IsTheSameEveryTimeButForAnotherNumberOfThreads) {
  const std::string first = ClassOf(1);
  EXPECT_THAT(first, ::testing::HasSubstr(" device=cpu threads=1 "));
  EXPECT_EQ(ClassOf(1), first);
  EXPECT_NE(ClassOf(2), first);
}

TEST(NumericClassTest, HasADigestOfEachPrecisionAndOfEachBoundaryThatLearns) {
  std::istringstream text(ClassOf(1));
  std::map<std::string, std::string> probes;
  for (std::string word; text >> word;) {
    const std::size_t end = word.find('=');
    ASSERT_NE(end, std::string::npos) << word;
    const std::string name = word.substr(0, end);
    if (!name.starts_with(protocol::kProbe)) continue;
    probes[word.substr(end + 1)] += name.substr(protocol::kProbe.size());
  }
  std::vector<std::string> names;
  for (const auto& [digest, name] : probes) names.push_back(name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("FP32", "BF16", "FP16", "Bottleneck", "Maxout",
                                                     "Subspace", "Anchored"));
}

TEST(NumericClassTest, NamesTheKernelsThatAttend) {
  EXPECT_THAT(ClassOf(1), ::testing::ContainsRegex(
                              " probe:FP16=[0-9a-f]+:flash/flash,flash/flash,flash/flash "));
}

TEST(AttentionKernelsTest, DependOnTheLayersOfTheModel) {
  api::DecoderConfig config = testing::SmallConfig();
  const auto kernels = [&] { return *AttentionKernels(config, api::Precision::kFP16, "cpu"); };
  EXPECT_EQ(kernels(), "flash");
  config.layers.assign(5, {.window = 3});
  EXPECT_EQ(kernels(), "flash");
  config.layers[2].window = 0;
  EXPECT_EQ(kernels(), "flash/flash");
  config.attn_logit_softcapping = 5;
  EXPECT_EQ(kernels(), "products/products");
}

TEST(NumericClassTest, NeedsTheDevice) {
  const Status none = NumericClass(1, "cuda:0").status();
  EXPECT_EQ(none.code(), StatusCode::kUnavailable);
  EXPECT_THAT(none.message(), ::testing::HasSubstr("device cuda:0: "));
  const auto kernels = AttentionKernels(testing::SmallConfig(), api::Precision::kFP16, "cuda:0");
  EXPECT_EQ(kernels.status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace swarm::model
