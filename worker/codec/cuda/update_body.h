// One step of an optimizer, of one pack of numbers: the arithmetic of worker/optim/update.cc. A GPU
// and a CPU that hold the same state and get the same gradient hold the same state afterwards.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "worker/codec/cuda/float_body.h"
#include "worker/codec/cuda/kernels.h"
#include "worker/codec/cuda/pack.h"
#include "worker/codec/cuda/team.h"
#include "worker/optim/update.h"

namespace swarm::codec::cuda {

struct Moments {
  float first;
  float second;
};

/// Of one element; `factors` of either optimizer.
template <typename Factors>
SWARM_BODY Moments MoveMoments(const Factors& factors, float gradient, Moments old) {
  const float g = gradient * factors.clip;
  return {old.first + factors.rest1 * (g - old.first),
          factors.beta2 * old.second + factors.rest2 * (g * g)};
}

/// For the elements of pack `index`: moves the moments, and then out[i] = result(weight, moments).
template <unsigned kWidth, typename Factors, typename Result>
SWARM_BODY void MovePack(const Factors& factors, const UpdateMemory& memory, float* out,
                         Result result, std::size_t index) {
  if ((index + 1) * kWidth > memory.n) {
    if constexpr (kWidth > 1) {
      for (std::size_t i = index * kWidth; i < memory.n; ++i) {
        MovePack<1>(factors, memory, out, result, i);
      }
    }
    return;
  }
  const auto weights = PackAt<kWidth>(memory.old_weights, index);
  const auto gradients = PackAt<kWidth>(memory.gradient, index);
  auto first = PackAt<kWidth>(memory.first_moment, index);
  auto second = PackAt<kWidth>(memory.second_moment, index);
  Pack<float, kWidth> results;
  for (unsigned w = 0; w < kWidth; ++w) {
    const Moments moments = MoveMoments(factors, gradients.at[w], {first.at[w], second.at[w]});
    first.at[w] = moments.first;
    second.at[w] = moments.second;
    results.at[w] = result(weights.at[w], moments);
  }
  PackAt<kWidth>(memory.first_moment, index) = first;
  PackAt<kWidth>(memory.second_moment, index) = second;
  PackAt<kWidth>(out, index) = results;
}

/// As optim::UpdateAdamW.
template <unsigned kWidth>
SWARM_BODY void UpdateAdamWPack(const optim::AdamWFactors& f, const UpdateMemory& memory,
                                std::size_t index) {
  MovePack<kWidth>(
      f, memory, memory.weights,
      [&](float weight, Moments m) {
        return f.decay * weight - f.step * (m.first / (sqrtf(m.second) / f.root + f.epsilon));
      },
      index);
}

/// The direction u of optim::UpdateLamb.
template <unsigned kWidth>
SWARM_BODY void LambDirectionPack(const optim::LambFactors& f, const UpdateMemory& memory,
                                  float* direction, std::size_t index) {
  MovePack<kWidth>(
      f, memory, direction,
      [&](float weight, Moments m) {
        return m.first * f.correct1 / (sqrtf(m.second * f.correct2) + f.epsilon) + f.decay * weight;
      },
      index);
}

/// How far optim::UpdateLamb goes in its direction, from the squared norms of the weights and of
/// it.
SWARM_BODY float LambStep(double learning_rate, bool by_norm, const double* squared_norms) {
  const double weights = sqrt(squared_norms[0]), direction = sqrt(squared_norms[1]);
  const bool scaled = by_norm && weights > 0 && direction > 0;
  return static_cast<float>(learning_rate * (scaled ? weights / direction : 1));
}

/// weights[i] = old_weights[i] - step direction[i]
SWARM_BODY void GoInDirection(const UpdateMemory& memory, const float* direction, float step,
                              std::size_t i) {
  memory.weights[i] = memory.old_weights[i] - step * direction[i];
}

}  // namespace swarm::codec::cuda
