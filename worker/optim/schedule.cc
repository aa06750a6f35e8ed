#include "worker/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace swarm::optim {
namespace {

constexpr std::uint64_t kScaleSteps = 10'000;  ///< of InverseSquareRoot without a warm-up

/// How much of the way from step `begin` to step `end` is done, from 0 to 1.
double Progress(std::uint64_t step, std::uint64_t begin, std::uint64_t end) {
  if (end <= begin) return 1;
  const auto done = static_cast<double>(std::max(step, begin) - begin);
  return std::min(1.0, done / static_cast<double>(end - begin));
}

/// From 1 to `floor`.
double Decayed(api::DecayShape shape, double progress, double floor) {
  switch (shape) {
    case api::DecayShape::kLinear:
      return 1 - (1 - floor) * progress;
    case api::DecayShape::kCosine:
      return floor + (1 - floor) * (1 + std::cos(std::numbers::pi * progress)) / 2;
    case api::DecayShape::kSquareRoot:
      return 1 - (1 - floor) * std::sqrt(progress);
  }
  return 1;
}

/// Of the full learning rate, after the warm-up.
double Fraction(std::uint64_t step, const api::Schedule& schedule, std::uint64_t max_steps) {
  const double floor = schedule.finalFraction;
  const double progress = Progress(step, schedule.warmupSteps, max_steps);
  switch (schedule.type) {
    case api::ScheduleType::kConstant:
      return 1;
    case api::ScheduleType::kLinear:
      return Decayed(api::DecayShape::kLinear, progress, floor);
    case api::ScheduleType::kCosine:
      return Decayed(api::DecayShape::kCosine, progress, floor);
    case api::ScheduleType::kWSD: {
      const std::uint64_t begin = max_steps - std::min(max_steps, schedule.decaySteps);
      return Decayed(schedule.decayShape, Progress(step, begin, max_steps), floor);
    }
    case api::ScheduleType::kInverseSquareRoot: {
      const double scale =
          static_cast<double>(schedule.warmupSteps > 0 ? schedule.warmupSteps : kScaleSteps);
      return std::sqrt(scale / (scale + static_cast<double>(step - schedule.warmupSteps)));
    }
  }
  return 1;
}

}  // namespace

double LearningRate(std::uint64_t step, const api::Optimizer& optimizer,
                    const api::Schedule& schedule, std::uint64_t max_steps) {
  if (step < schedule.warmupSteps) {
    return optimizer.learningRate * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmupSteps);
  }
  return optimizer.learningRate * Fraction(step, schedule, max_steps);
}

}  // namespace swarm::optim
