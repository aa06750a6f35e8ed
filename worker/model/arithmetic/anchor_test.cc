#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "worker/model/arithmetic/boundary.h"

namespace swarm::model {
namespace {

TEST(AnchorTest, AddsWhatItsMatrixMakesOfTheTokensBefore) {
  const at::Tensor rows = at::tensor({1.0F, 10.0F, 100.0F, 1000.0F}).view({1, 4, 1});
  const BoundaryWeights weights{.decoder = at::tensor({1.0F}).view({1, 1}),
                                .context = at::tensor({2.0F, 3.0F}).view({1, 2})};
  const api::Boundary boundary{
      .codec = api::BoundaryCodec::kAnchored, .rank = 1, .anchorTokens = 3};
  const at::Tensor x = Receive(boundary, weights, {}, {.rows = rows}, at::full({1, 4, 1}, 0.5F));
  EXPECT_TRUE(at::equal(x.flatten(), at::tensor({1.5F, 12.5F, 123.5F, 1230.5F})));
}

TEST(AnchorTest, SequencesMayBeShorterThanIt) {
  const at::Tensor rows = at::tensor({1.0F, 10.0F}).view({1, 2, 1});
  const BoundaryWeights weights{.decoder = at::zeros({1, 1}), .context = at::ones({1, 7})};
  const api::Boundary boundary{
      .codec = api::BoundaryCodec::kAnchored, .rank = 1, .anchorTokens = 8};
  const at::Tensor x = Receive(boundary, weights, {}, {.rows = rows}, at::ones({1, 2, 1}));
  EXPECT_TRUE(at::equal(x.flatten(), at::tensor({1.0F, 11.0F})));
}

}  // namespace
}  // namespace swarm::model
