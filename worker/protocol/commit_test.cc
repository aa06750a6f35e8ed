#include "worker/protocol/commit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace swarm::protocol {
namespace {

TEST(CommitTest, ClippingBringsTheNormToTheLimitAndNeverAmplifies) {
  EXPECT_DOUBLE_EQ(ComputeClip(2.0, 1.0), 1.0 / (2.0 + 1e-6));
  EXPECT_DOUBLE_EQ(ComputeClip(0.5, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(ComputeClip(100.0, 0.0), 1.0);  // 0: no clipping
}

TEST(CommitTest, TheNormCountsEachTensorOnceAcrossGroups) {
  CommitInputs inputs{.groups = {{{}, {{"a", 9.0}, {"tied", 16.0}}}, {{}, {{"tied", 16.0}}}},
                      .losses = {1.0, 3.0},
                      .max_grad_norm = 1.0};
  const CommitRecord record = DecideCommit(inputs);
  EXPECT_DOUBLE_EQ(record.grad_norm, 5.0);
  EXPECT_DOUBLE_EQ(record.loss, 2.0);
  EXPECT_DOUBLE_EQ(record.clip, 1.0 / (5.0 + 1e-6));
  EXPECT_FALSE(record.skip);
}

TEST(CommitTest, WhereLabelsDoNotCountTheRecordIsOfTheMeanOverThoseThatDo) {
  CommitInputs inputs{.groups = {{{}, {{"a", 9.0}, {"b", 16.0}}}},
                      .losses = {0.5, 1.5},
                      .max_grad_norm = 40.0,
                      .counted_part = 0.25};
  CommitRecord record = DecideCommit(inputs);
  EXPECT_DOUBLE_EQ(record.loss, 4.0);
  EXPECT_DOUBLE_EQ(record.grad_norm, 20.0);
  EXPECT_DOUBLE_EQ(record.clip, 4.0);  // of the sums: their mean is within the norm
  inputs.max_grad_norm = 10.0;
  record = DecideCommit(inputs);
  EXPECT_NEAR(record.clip * 5.0, 10.0, 1e-5);
}

TEST(CommitTest, GradientsThatAreNotFiniteAreSkipped) {
  CommitInputs inputs{.groups = {{{}, {{"a", std::numeric_limits<double>::infinity()}}}},
                      .losses = {1.0}};
  EXPECT_TRUE(DecideCommit(inputs).skip);
  inputs.groups = {{{}, {{"a", 1.0}}}};
  inputs.losses = {std::nan("")};
  EXPECT_TRUE(DecideCommit(inputs).skip);
}

}  // namespace
}  // namespace swarm::protocol
