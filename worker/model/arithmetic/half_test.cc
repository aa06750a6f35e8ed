#include "worker/model/arithmetic/half.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <vector>

#include "worker/model/arithmetic/decoder.h"

namespace swarm::model {
namespace {

at::Tensor Random(at::IntArrayRef shape, std::uint64_t seed) {
  at::Generator random = at::detail::createCPUGenerator(seed);
  return at::randn(shape, random, at::kFloat);
}

/// |a - b| / |b|.
double Distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

TEST(ScaleTest, TakesTheLargestNearTheEndOfTheRangeByAPowerOfTwo) {
  const at::Tensor shape = at::tensor({1.0F, -0.3F, 1e-3F, 0.0F});
  for (int exponent = -100; exponent <= 127; ++exponent) {
    SCOPED_TRACE(exponent);
    const at::Tensor gradient = shape * std::ldexp(1.0, exponent);
    const ScaledGradient scaled = Scale(gradient);
    EXPECT_EQ(scaled.values.scalar_type(), at::kHalf);
    EXPECT_EQ(scaled.values.abs().amax().item<float>(), std::ldexp(1.0F, 14));
    EXPECT_EQ(scaled.unscale.item<float>(), std::ldexp(1.0F, exponent - 14));
    const at::Tensor again = scaled.values.to(at::kFloat) * scaled.unscale;
    EXPECT_LE(((again - gradient).abs() - 0x1p-11 * gradient.abs()).amax().item<float>(), 0);
  }
}

TEST(ScaleTest, KeepsZerosAndWhatIsTooSmallAndWhatIsNotFinite) {
  for (const float largest : {0.0F, std::numeric_limits<float>::denorm_min(), 0x1p-126F}) {
    const at::Tensor gradient = at::tensor({largest, 0.0F});
    const ScaledGradient scaled = Scale(gradient);
    EXPECT_TRUE(at::equal(scaled.values.to(at::kFloat) * scaled.unscale, gradient)) << largest;
  }
  for (const float largest :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const ScaledGradient scaled = Scale(at::tensor({largest, 1.0F}));
    const at::Tensor again = scaled.values.to(at::kFloat) * scaled.unscale;
    EXPECT_FALSE(std::isfinite(again[0].item<float>())) << largest;
  }
}

/// x wᵀ of 66 rows, and a gradient of it.
struct Problem {
  at::Tensor x = Random({3, 22, 40}, 1), w = Random({30, 40}, 2), gradient = Random({3, 22, 30}, 3);

  /// The gradients of x and w where the result has `factor` times the gradient.
  std::vector<at::Tensor> InFloats(double factor) const {
    const at::Tensor g = (gradient * factor).flatten(0, 1);
    return {at::mm(g, w).view_as(x), at::mm(g.t(), x.flatten(0, 1))};
  }
  std::vector<at::Tensor> Scaled(double factor) const {
    const at::Tensor of_x = x.clone().requires_grad_(true);
    const at::Tensor of_w = w.to(at::kHalf).requires_grad_(true);
    of_w.set_grad_dtype(at::kFloat);
    return torch::autograd::grad({HalfLinear(of_x, of_w)}, {of_x, of_w}, {gradient * factor});
  }
  /// As autocast has it: gradients are rounded to binary16 as they are.
  std::vector<at::Tensor> Plain(double factor) const {
    const at::Tensor g = (gradient * factor).to(at::kHalf).to(at::kFloat).flatten(0, 1);
    const auto rounded = [](const at::Tensor& t) { return t.to(at::kHalf).to(at::kFloat); };
    return {rounded(at::mm(g, rounded(w))).view_as(x),
            rounded(at::mm(g.t(), rounded(x.flatten(0, 1))))};
  }
};

TEST(HalfLinearTest, IsTheProductOfRoundedOperandsInFloat32) {
  const Problem problem;
  const at::Tensor product = HalfLinear(problem.x, problem.w.to(at::kHalf));
  ASSERT_EQ(product.scalar_type(), at::kFloat);
  // Each operand is off by 2^-11 at most, and the errors of the terms of a sum are independent.
  EXPECT_LT(Distance(product, at::linear(problem.x, problem.w)), 0x1p-11);
}

TEST(HalfLinearTest, SmallGradientsAreAsExactAsLargeOnesWherePlainBinary16LosesThem) {
  const Problem problem;
  for (const double factor : {1.0, 1e-7, 1e-20}) {
    SCOPED_TRACE(factor);
    const auto truth = problem.InFloats(factor), scaled = problem.Scaled(factor);
    const auto plain = problem.Plain(factor);
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(scaled[i].scalar_type(), at::kFloat);
      ASSERT_EQ(scaled[i].sizes(), truth[i].sizes());
      EXPECT_LT(Distance(scaled[i], truth[i]), 0x1p-11);
      EXPECT_LE(Distance(scaled[i], truth[i]), Distance(plain[i], truth[i]));
      if (factor < 1) {
        EXPECT_LT(100 * Distance(scaled[i], truth[i]), Distance(plain[i], truth[i]));
      }
    }
  }
}

TEST(HalfLinearTest, GivesGradientsTheSameBitsHoweverSmallTheyAre) {
  const Problem problem;
  const auto expected = problem.Scaled(1);
  for (const double factor : {0x1p-70, 0x1p-20, 0x1p20}) {
    const auto actual = problem.Scaled(factor);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::equal(actual[i], expected[i] * factor));
  }
}

TEST(HalfLinearTest, WhatExceedsTheRangeIsNotFinite) {
  const Problem problem;
  const auto finite = [](const at::Tensor& x, const at::Tensor& w) {
    return HalfLinear(x, w.to(at::kHalf)).isfinite().all().item<bool>();
  };
  EXPECT_TRUE(finite(problem.x, problem.w));
  EXPECT_FALSE(finite(problem.x * 1e6, problem.w));
  EXPECT_FALSE(finite(problem.x, problem.w * 1e6));
}

TEST(WidenedTest, AGradientPassesAsItIs) {
  const at::Tensor leaf = Random({3, 5}, 1).to(at::kHalf).requires_grad_(true);
  leaf.set_grad_dtype(at::kFloat);
  const at::Tensor gradient = Random({3, 5}, 2) * 1e-12;
  EXPECT_TRUE(at::equal(torch::autograd::grad({Widened(leaf)}, {leaf}, {gradient})[0], gradient));
}

/// A decoder layer of which the gradients of x and of the first matrix are asked.
struct Layer {
  api::DecoderConfig config;
  api::LayerOptions options;
  LayerWeights weights;
  at::Tensor x;

  Layer(const api::DecoderConfig& of, const api::LayerOptions& layer, std::int64_t tokens)
      : config(of), options(layer), x(Random({2, tokens, of.hidden_size}, 1)) {
    const std::int64_t d = of.hidden_size, inner = of.intermediate_size;
    const std::int64_t queries = of.num_attention_heads * of.head_dim;
    const std::int64_t keys = of.num_key_value_heads * of.head_dim;
    weights.attention_norm = weights.mlp_norm = at::ones({d});
    weights.query_key_value = Random({queries + 2 * keys, d}, 2) / std::sqrt(double(d));
    weights.attention_output = Random({d, queries}, 3) / std::sqrt(double(queries));
    weights.gate_up = Random({2 * inner, d}, 4) / std::sqrt(double(d));
    weights.down = Random({d, inner}, 5) / std::sqrt(double(inner));
  }

  std::vector<at::Tensor> Gradients(at::ScalarType type, const at::Tensor& gradient) const {
    LayerWeights of = weights;
    for (at::Tensor* matrix : {&of.query_key_value, &of.attention_output, &of.gate_up, &of.down}) {
      *matrix = matrix->detach().clone().to(type).requires_grad_(true);
      matrix->set_grad_dtype(at::kFloat);
    }
    const at::Tensor in = x.clone().requires_grad_(true);
    PositionTables positions(config, at::kCPU);
    const at::Tensor out = DecoderLayer(config, options, of, {}, positions, in);
    return torch::autograd::grad({out}, {in, of.query_key_value, of.down}, {gradient});
  }
};

api::DecoderConfig LayerConfig() {
  return {.hidden_size = 64,
          .num_hidden_layers = 1,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 16,
          .intermediate_size = 96,
          .vocab_size = 10};
}

struct LayerCase {
  const char* name;
  api::LayerOptions options;
  double cap = 0;
};

class HalfLayerTest : public ::testing::TestWithParam<LayerCase> {};

TEST_P(HalfLayerTest, HasTheGradientsOfFloat32HoweverSmallTheyAre) {
  api::DecoderConfig config = LayerConfig();
  config.attn_logit_softcapping = GetParam().cap;
  const Layer layer(config, GetParam().options, 100);
  const at::Tensor gradient = Random({2, 100, 64}, 9);
  const auto truth = layer.Gradients(at::kFloat, gradient);
  const auto half = layer.Gradients(at::kHalf, gradient);
  const auto brain = layer.Gradients(at::kBFloat16, gradient);
  const auto small = layer.Gradients(at::kHalf, gradient * 0x1p-60);
  for (std::size_t i = 0; i < truth.size(); ++i) {
    // 1.5 times the worst that was seen: nearly twice the error of an operand, 2^-11.
    EXPECT_LT(Distance(half[i], truth[i]), 1.4e-3) << i;
    // Three bits more than bfloat16.
    EXPECT_LT(4 * Distance(half[i], truth[i]), Distance(brain[i], truth[i])) << i;
    EXPECT_TRUE(at::equal(small[i], half[i] * 0x1p-60)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Attentions, HalfLayerTest,
                         ::testing::Values(LayerCase{"All", {}},
                                           LayerCase{"WithinAWindow", {.window = 30}},
                                           LayerCase{"Capped", {}, 5},
                                           LayerCase{"CappedWithinAWindow", {.window = 30}, 5}),
                         [](const auto& info) { return info.param.name; });

TEST(HalfLayerTest, TheSumOverAllTokensThatAttendToOneHasRoom) {
  // All tokens attend to the first alone, and have one gradient.
  constexpr std::int64_t kTokens = 4000;
  api::DecoderConfig config = LayerConfig();
  config.hidden_size = config.head_dim = 16;
  config.num_attention_heads = config.num_key_value_heads = 1;
  Layer layer(config, {.rotary = false}, kTokens);
  layer.x = at::zeros({1, kTokens, 16});
  layer.x.select(2, 1).fill_(1);
  layer.x[0][0][0] = 1;
  layer.x[0][0][1] = 0;
  at::Tensor& matrix = layer.weights.query_key_value;
  matrix.zero_();
  matrix.slice(0, 0, 16).fill_(4);                // of queries
  matrix.slice(0, 16, 32).select(1, 0).fill_(4);  // of keys
  matrix.slice(0, 32, 48).select(1, 0).fill_(1);  // of values
  layer.weights.attention_output = at::eye(16);
  layer.weights.down.zero_();
  const at::Tensor gradient = at::ones({1, kTokens, 16});
  const at::Tensor truth = layer.Gradients(at::kFloat, gradient)[1];
  EXPECT_GT(truth.amax().item<double>(), kTokens);
  EXPECT_LT(Distance(layer.Gradients(at::kHalf, gradient)[1], truth), 0x1p-11);
}

}  // namespace
}  // namespace swarm::model
