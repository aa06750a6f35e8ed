#include "worker/model/numeric_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace swarm::model {
namespace {

std::string ClassOf(const StageOptions& options) {
  const Result<std::string> numeric_class = NumericClass(options);
  EXPECT_TRUE(numeric_class.ok()) << numeric_class.status().ToString();
  return *numeric_class;
}

TEST(NumericClassTest, IsTheSameEveryTimeWhateverTheJobIs) {
  StageOptions options;
  const std::string first = ClassOf(options);
  EXPECT_THAT(first, ::testing::HasSubstr("threads=1 precision=FP32 codec=None/None probe="));
  options.stage_count = 3;
  options.microbatches = 7;
  options.step_mode = api::StepMode::kDelayed;
  EXPECT_EQ(ClassOf(options), first);
}

TEST(NumericClassTest, TellsPrecisionsCodecsAndThreadsApart) {
  StageOptions options;
  const std::string first = ClassOf(options);
  options.boundary.codec = api::BoundaryCodec::kBF16;
  const std::string codec = ClassOf(options);
  EXPECT_NE(codec, first);
  EXPECT_NE(codec.substr(codec.find("probe")), first.substr(first.find("probe")));
  options.boundary.codec = api::BoundaryCodec::kNone;
  options.precision = api::Precision::kBF16;
  const std::string precision = ClassOf(options);
  EXPECT_NE(precision.substr(precision.find("probe")), first.substr(first.find("probe")));
  options.precision = api::Precision::kFP32;
  options.threads = 2;
  EXPECT_NE(ClassOf(options), first);
}

TEST(NumericClassTest, NeedsTheDevice) {
  StageOptions options;
  options.device = "cuda:0";
  EXPECT_EQ(NumericClass(options).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace swarm::model
