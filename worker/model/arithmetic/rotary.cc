#include "worker/model/arithmetic/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace swarm::model {
namespace {

/// How much of a frequency is kept, the rest being divided by the factor.
double KeptByLlama3(const api::Rope& rope, double frequency) {
  const double turns = static_cast<double>(rope.original_max_position_embeddings) * frequency /
                       (2 * std::numbers::pi);
  return std::clamp((turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor),
                    0.0, 1.0);
}

/// The ramp of yarn over the pairs.
struct Ramp {
  double first = 0, last = 0;
  double Kept(double pair) const {
    return 1 - std::clamp((pair - first) / (last - first), 0.0, 1.0);
  }
};

Ramp YarnRamp(const api::Rope& rope, double head_dim) {
  // The pair that turns so many times in a sequence of pre-training.
  const auto pair_of = [&](double turns) {
    const auto length = static_cast<double>(rope.original_max_position_embeddings);
    return head_dim * std::log(length / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  Ramp ramp{pair_of(rope.beta_fast), pair_of(rope.beta_slow)};
  if (rope.truncate) ramp = {std::floor(ramp.first), std::ceil(ramp.last)};
  ramp = {std::max(ramp.first, 0.0), std::min(ramp.last, head_dim - 1)};
  if (ramp.first == ramp.last) ramp.last += 0.001;
  return ramp;
}

}  // namespace

std::vector<float> RotaryFrequencies(const api::Rope& rope, std::int64_t head_dim) {
  const auto width = static_cast<double>(head_dim);
  const Ramp ramp = rope.type == api::RopeType::kYarn ? YarnRamp(rope, width) : Ramp();
  std::vector<float> frequencies;
  for (std::int64_t pair = 0; pair < head_dim / 2; ++pair) {
    const auto index = static_cast<double>(pair);
    const double frequency = std::pow(rope.theta, -2 * index / width);
    double kept = 1;
    if (rope.type == api::RopeType::kLinear) kept = 0;
    if (rope.type == api::RopeType::kYarn) kept = ramp.Kept(index);
    if (rope.type == api::RopeType::kLlama3) kept = KeptByLlama3(rope, frequency);
    frequencies.push_back(
        static_cast<float>(kept * frequency + (1 - kept) * frequency / rope.factor));
  }
  return frequencies;
}

}  // namespace swarm::model
