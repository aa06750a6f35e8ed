#include "worker/optim/update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"

namespace swarm::optim {
namespace {

constexpr std::size_t kSize = 1037;

std::vector<float> RandomValues(std::uint64_t key) {
  Rng rng(key);
  std::vector<float> values(kSize);
  for (float& value : values) value = static_cast<float>(rng.Uniform() - 0.5);
  return values;
}

/// A tensor and its optimizer state.
struct Parameter {
  std::vector<float> weights = RandomValues(1);
  std::vector<float> first = std::vector<float>(kSize);
  std::vector<float> second = std::vector<float>(kSize);
  UpdateSpans Spans(const std::vector<float>& gradient) {
    return {weights, gradient, first, second, weights};
  }
};

/// The formulas of update.h in double, one element after the other.
struct Reference {
  std::vector<double> weights, first, second;
  explicit Reference(const Parameter& p)
      : weights(p.weights.begin(), p.weights.end()), first(kSize), second(kSize) {}

  /// The Adam direction of element i, after its moments took the gradient in.
  double Direction(const UpdateOptions& o, const std::vector<float>& gradient, std::size_t i) {
    const double g = gradient[i] * o.clip;
    const double n = static_cast<double>(o.count);
    first[i] = o.beta1 * first[i] + (1 - o.beta1) * g;
    second[i] = o.beta2 * second[i] + (1 - o.beta2) * g * g;
    return first[i] / (1 - std::pow(o.beta1, n)) /
           (std::sqrt(second[i] / (1 - std::pow(o.beta2, n))) + o.epsilon);
  }
  void AdamW(const UpdateOptions& o, const std::vector<float>& gradient) {
    for (std::size_t i = 0; i < kSize; ++i) {
      const double direction = Direction(o, gradient, i);
      weights[i] -= o.learning_rate * (direction + o.weight_decay * weights[i]);
    }
  }
  void Lamb(const UpdateOptions& o, const std::vector<float>& gradient) {
    std::vector<double> update(kSize);
    double weight_norm = 0;
    double update_norm = 0;
    for (std::size_t i = 0; i < kSize; ++i) {
      update[i] = Direction(o, gradient, i) + o.weight_decay * weights[i];
      weight_norm += weights[i] * weights[i];
      update_norm += update[i] * update[i];
    }
    const double ratio = std::sqrt(weight_norm / update_norm);
    for (std::size_t i = 0; i < kSize; ++i) weights[i] -= o.learning_rate * ratio * update[i];
  }
};

TEST(UpdateTest, AdamWIsTheFormulaInDouble) {
  Parameter parameter;
  Reference reference(parameter);
  UpdateOptions options{.learning_rate = 0.01, .weight_decay = 0.1, .clip = 0.7};
  for (options.count = 1; options.count <= 20; ++options.count) {
    const std::vector<float> gradient = RandomValues(100 + options.count);
    UpdateAdamW(options, parameter.Spans(gradient));
    reference.AdamW(options, gradient);
  }
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_NEAR(parameter.weights[i], reference.weights[i], 1e-6);
}

TEST(UpdateTest, LambIsTheFormulaInDouble) {
  Parameter parameter;
  Reference reference(parameter);
  UpdateOptions options{.learning_rate = 0.01, .weight_decay = 0.1, .clip = 0.7};
  for (options.count = 1; options.count <= 20; ++options.count) {
    const std::vector<float> gradient = RandomValues(100 + options.count);
    UpdateLamb(options, parameter.Spans(gradient));
    reference.Lamb(options, gradient);
  }
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_NEAR(parameter.weights[i], reference.weights[i], 1e-6);
}

TEST(UpdateTest, LambTakesAPlainStepWhereTheWeightsAreZero) {
  Parameter parameter;
  parameter.weights.assign(kSize, 0.0F);
  UpdateLamb({.learning_rate = 0.5}, parameter.Spans(std::vector<float>(kSize, 3.0F)));
  EXPECT_NEAR(parameter.weights[0], -0.5, 1e-6);
}

TEST(UpdateTest, LambHoldsWeightsThatBeganWithZerosNearThemUnlessItsStepsAreFreeOfTheNorm) {
  const std::vector<float> gradient(kSize, 3.0F);
  const auto moved_by = [&](bool by_norm) {
    Parameter parameter;
    parameter.weights.assign(kSize, 0.0F);
    UpdateLamb({.learning_rate = 1e-6, .count = 1, .by_norm = by_norm}, parameter.Spans(gradient));
    const float before = parameter.weights[0];
    UpdateLamb({.learning_rate = 1e-2, .count = 2, .by_norm = by_norm}, parameter.Spans(gradient));
    return std::abs(parameter.weights[0] - before);
  };
  EXPECT_NEAR(moved_by(false), 1e-2, 1e-6);
  EXPECT_LT(moved_by(true), 1e-7);
}

TEST(UpdateTest, LambStandsStillWithoutGradientAndDecay) {
  Parameter parameter;
  UpdateLamb({.learning_rate = 0.5}, parameter.Spans(std::vector<float>(kSize)));
  EXPECT_EQ(parameter.weights, RandomValues(1));
}

TEST(UpdateTest, AdamWGivesTheSameBitsInPartsAndOutOfPlace) {
  const UpdateOptions options{.learning_rate = 0.01, .weight_decay = 0.1};
  const std::vector<float> gradient = RandomValues(2);
  Parameter whole;
  UpdateAdamW(options, whole.Spans(gradient));

  Parameter parts;
  std::vector<float> target(kSize);
  for (std::size_t begin = 0; begin < kSize; begin += 101) {
    const std::size_t count = std::min<std::size_t>(101, kSize - begin);
    const UpdateSpans spans = parts.Spans(gradient);
    UpdateAdamW(
        options,
        {spans.old_weights.subspan(begin, count), spans.gradient.subspan(begin, count),
         spans.first_moment.subspan(begin, count), spans.second_moment.subspan(begin, count),
         std::span(target).subspan(begin, count)});
  }
  EXPECT_EQ(target, whole.weights);
  EXPECT_EQ(parts.first, whole.first);
  EXPECT_EQ(parts.second, whole.second);
  EXPECT_EQ(parts.weights, RandomValues(1)) << "the old weights are not touched";
}

}  // namespace
}  // namespace swarm::optim
