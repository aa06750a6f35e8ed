#include "worker/optim/update.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "worker/optim/norm.h"

namespace swarm::optim {
namespace {

/// 1 - beta^count. By squaring: std::pow may differ in its last bit between machines.
double BiasCorrection(double beta, std::uint64_t count) {
  double power = 1;
  for (double base = beta; count > 0; count >>= 1, base *= base) {
    if (count & 1) power *= base;
  }
  return 1 - power;
}

}  // namespace

AdamWFactors AdamWFactorsOf(const UpdateOptions& options) {
  return {.clip = static_cast<float>(options.clip),
          .rest1 = static_cast<float>(1 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .rest2 = static_cast<float>(1 - options.beta2),
          .epsilon = static_cast<float>(options.epsilon),
          .decay = static_cast<float>(1 - options.learning_rate * options.weight_decay),
          .step = static_cast<float>(options.learning_rate /
                                     BiasCorrection(options.beta1, options.count)),
          .root = static_cast<float>(std::sqrt(BiasCorrection(options.beta2, options.count)))};
}

LambFactors LambFactorsOf(const UpdateOptions& options) {
  return {.clip = static_cast<float>(options.clip),
          .rest1 = static_cast<float>(1 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .rest2 = static_cast<float>(1 - options.beta2),
          .epsilon = static_cast<float>(options.epsilon),
          .decay = static_cast<float>(options.weight_decay),
          .correct1 = static_cast<float>(1 / BiasCorrection(options.beta1, options.count)),
          .correct2 = static_cast<float>(1 / BiasCorrection(options.beta2, options.count))};
}

void UpdateAdamW(const UpdateOptions& options, const UpdateSpans& spans) {
  const auto [clip, rest1, beta2, rest2, epsilon, decay, step, root] = AdamWFactorsOf(options);
  const float* old_weights = spans.old_weights.data();
  const float* gradient = spans.gradient.data();
  float* first = spans.first_moment.data();
  float* second = spans.second_moment.data();
  float* weights = spans.weights.data();
  const std::size_t size = spans.weights.size();
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) {
    const float g = gradient[i] * clip;
    const float m = first[i] + rest1 * (g - first[i]);
    const float v = beta2 * second[i] + rest2 * (g * g);
    first[i] = m;
    second[i] = v;
    weights[i] = decay * old_weights[i] - step * (m / (std::sqrt(v) / root + epsilon));
  }
}

void UpdateLamb(const UpdateOptions& options, const UpdateSpans& spans) {
  const auto [clip, rest1, beta2, rest2, epsilon, decay, correct1, correct2] =
      LambFactorsOf(options);
  const std::size_t size = spans.weights.size();
  std::vector<float> update(size);
  const float* old_weights = spans.old_weights.data();
  const float* gradient = spans.gradient.data();
  float* first = spans.first_moment.data();
  float* second = spans.second_moment.data();
  float* direction = update.data();
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) {
    const float g = gradient[i] * clip;
    const float m = first[i] + rest1 * (g - first[i]);
    const float v = beta2 * second[i] + rest2 * (g * g);
    first[i] = m;
    second[i] = v;
    direction[i] = m * correct1 / (std::sqrt(v * correct2) + epsilon) + decay * old_weights[i];
  }
  const double weight_norm = std::sqrt(SquaredNorm(spans.old_weights));
  const double update_norm = std::sqrt(SquaredNorm(update));
  const bool scaled = options.by_norm && weight_norm > 0 && update_norm > 0;
  const double ratio = scaled ? weight_norm / update_norm : 1;
  const float step = static_cast<float>(options.learning_rate * ratio);
  float* weights = spans.weights.data();
#pragma GCC ivdep
  for (std::size_t i = 0; i < size; ++i) weights[i] = old_weights[i] - step * direction[i];
}

}  // namespace swarm::optim
