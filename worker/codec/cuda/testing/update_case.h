// States of an optimizer on which devices must agree.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "worker/codec/cuda/testing/cases.h"
#include "worker/optim/update.h"

namespace swarm::codec::cuda {

struct UpdateCase {
  std::vector<float> weights, gradient, first, second;

  /// Gradients and moments of all magnitudes, denormals and zeros among them.
  explicit UpdateCase(std::size_t n)
      : weights(NormalNumbers(n, 1)),
        gradient(WideNumbers(n, 2)),
        first(NormalNumbers(n, 3, 1e-4f)),
        second(NormalNumbers(n, 4, 1e-8f)) {
    for (float& value : gradient) {
      if (std::fabs(value) > 1e15f) value = 1e-3f;
    }
    for (float& value : second) value = std::fabs(value);
    for (std::size_t i = 0; i < n; i += 5) first[i] = second[i] = 0;  // the first update
  }

  optim::UpdateSpans Spans(const std::vector<float>& old_weights) {
    return {old_weights, gradient, first, second, weights};
  }
};

inline optim::UpdateOptions SomeOptions(std::uint64_t count) {
  return {.learning_rate = 3e-4, .weight_decay = 0.1, .clip = 0.37, .count = count};
}

}  // namespace swarm::codec::cuda
