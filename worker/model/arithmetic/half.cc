#include "worker/model/arithmetic/half.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "base/status.h"

namespace swarm::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A float32 is a sign, 8 bits of a biased exponent, and a fraction of 23 bits.
constexpr std::int64_t kFractionBits = 23;
constexpr std::int64_t kExponentBits = 0x7f800000;
constexpr std::int64_t kBias = 127;
constexpr std::int64_t kTarget = 14;  ///< the exponent of a bound once it is scaled
/// A power of two and its inverse are both normal numbers.
constexpr std::int64_t kScaleExponentMax = 126;

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight) {
    const at::Tensor rows = x.flatten(0, -2).to(at::kHalf);
    context->save_for_backward(
        {weight.requires_grad() ? rows : at::Tensor(), x.requires_grad() ? weight : at::Tensor()});
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return HalfProduct(rows, weight.t()).view(shape);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &rows = saved[0], &weight = saved[1];
    const ScaledGradient gradient = Scale(gradients[0].flatten(0, -2));
    at::Tensor of_x, of_weight;
    if (weight.defined()) {
      std::vector<std::int64_t> shape = gradients[0].sizes().vec();
      shape.back() = weight.size(1);
      of_x = HalfProduct(gradient.values, weight).mul_(gradient.unscale).view(shape);
    }
    if (rows.defined()) {
      of_weight = HalfProduct(gradient.values.t(), rows).mul_(gradient.unscale);
    }
    return {of_x, of_weight};
  }
};

struct Widening : torch::autograd::Function<Widening> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& matrix) {
    return matrix.to(at::kFloat);
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return gradients;
  }
};

/// The place of a computation in the graph. It has a graph of its own, in binary16.
struct HalfGraph final : torch::autograd::Node {
  GradientBound bound;
  variable_list inputs;
  at::Tensor output;

  variable_list apply(variable_list&& gradients) override {
    const ScaledGradient gradient = ScaleWithin(gradients[0], bound(gradients[0], inputs));
    variable_list results = torch::autograd::grad({output}, inputs, {gradient.values});
    for (at::Tensor& result : results) result = result.to(at::kFloat).mul_(gradient.unscale);
    return results;
  }

  void release_variables() override {
    inputs.clear();
    output.reset();
  }
};

}  // namespace

at::ScalarType MatrixType(api::Precision precision) {
  switch (precision) {
    case api::Precision::kFP32:
      return at::kFloat;
    case api::Precision::kBF16:
      return at::kBFloat16;
    case api::Precision::kFP16:
      return at::kHalf;
  }
  SWARM_CHECK(false, "MatrixType: no such precision");
}

ScaledGradient ScaleWithin(const at::Tensor& gradient, const at::Tensor& bound) {
  const auto power = [](const at::Tensor& biased_exponent) {
    return biased_exponent.bitwise_left_shift(kFractionBits).view(at::kFloat);
  };
  // What is not finite has the largest exponent: the scale is a number, and scales it to itself.
  const at::Tensor exponent = bound.view(at::kInt)
                                  .bitwise_and(kExponentBits)
                                  .bitwise_right_shift(kFractionBits)
                                  .clamp_min(kTarget + kBias - kScaleExponentMax);
  const at::Tensor scale = power(kTarget + 2 * kBias - exponent);
  at::Tensor values = at::empty(gradient.sizes(), gradient.options().dtype(at::kHalf));
  at::mul_out(values, gradient, scale);
  return {std::move(values), power(exponent - kTarget)};
}

ScaledGradient Scale(const at::Tensor& gradient) {
  return ScaleWithin(gradient,
                     at::linalg_vector_norm(gradient, std::numeric_limits<double>::infinity()));
}

at::Tensor HalfProduct(const at::Tensor& a, const at::Tensor& b) {
  // A product of two numbers of binary16 is exact in float32: this is what tensor cores do.
  if (a.is_cpu()) return at::mm(a.to(at::kFloat), b.to(at::kFloat));
  return at::mm(a, b, at::kFloat);
}

at::Tensor HalfLinear(const at::Tensor& x, const at::Tensor& weight) {
  return Linear::apply(x, weight);
}

at::Tensor InHalf(const Computation& compute, const GradientBound& bound,
                  const std::vector<at::Tensor>& inputs) {
  const bool records =
      at::GradMode::is_enabled() &&
      std::ranges::any_of(inputs, [](const at::Tensor& input) { return input.requires_grad(); });
  std::vector<at::Tensor> halves;
  for (const at::Tensor& input : inputs) halves.push_back(input.detach().to(at::kHalf));
  if (!records) return compute(halves).to(at::kFloat);
  const auto node = std::make_shared<HalfGraph>();
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  node->bound = bound;
  for (at::Tensor& half : halves) half.set_requires_grad(true);
  node->output = compute(halves);
  node->inputs = std::move(halves);
  at::Tensor result = node->output.detach().to(at::kFloat);
  torch::autograd::set_history(result, node);
  return result;
}

at::Tensor Widened(const at::Tensor& matrix) { return Widening::apply(matrix); }

}  // namespace swarm::model
