#include "worker/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace swarm::optim {
namespace {

double Progress(std::uint64_t step, std::uint64_t warmup_steps, std::uint64_t max_steps) {
  if (max_steps <= warmup_steps) return 1;
  const double done = static_cast<double>(step - warmup_steps);
  return std::min(1.0, done / static_cast<double>(max_steps - warmup_steps));
}

}  // namespace

double LearningRate(std::uint64_t step, const api::Optimizer& optimizer,
                    const api::Schedule& schedule, std::uint64_t max_steps) {
  if (step < schedule.warmupSteps) {
    return optimizer.learningRate * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmupSteps);
  }
  const double progress = Progress(step, schedule.warmupSteps, max_steps);
  const double floor = schedule.finalFraction;
  switch (schedule.type) {
    case api::ScheduleType::kConstant:
      return optimizer.learningRate;
    case api::ScheduleType::kLinear:
      return optimizer.learningRate * (1 - (1 - floor) * progress);
    case api::ScheduleType::kCosine:
      return optimizer.learningRate *
             (floor + (1 - floor) * (1 + std::cos(std::numbers::pi * progress)) / 2);
  }
  return optimizer.learningRate;
}

}  // namespace swarm::optim
