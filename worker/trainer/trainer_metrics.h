// The metrics of a trainer, written as it goes and read from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "base/histogram.h"

namespace swarm::trainer {

/// Thread-safe. A value that is not known yet is NaN.
struct TrainerMetrics {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::atomic<std::uint64_t> version{0};
  std::atomic<std::uint64_t> steps{0};  ///< committed by this process
  std::atomic<std::uint64_t> tokens{0};
  std::atomic<std::uint64_t> skipped_steps{0};
  std::atomic<std::uint64_t> discarded_steps{0};  ///< committed, and undone by a rollback
  std::atomic<std::uint64_t> useful_tasks{0};     ///< forwards and backwards of committed steps
  std::atomic<std::uint64_t> boundary_bytes{0};
  std::atomic<std::uint64_t> checkpoints{0};
  std::atomic<std::uint64_t> checkpoint_failures{0};
  std::atomic<double> loss{kUnknown};
  std::atomic<double> validation_loss{kUnknown};
  std::atomic<double> grad_norm{kUnknown};
  std::atomic<double> learning_rate{kUnknown};
  std::atomic<double> tokens_per_second{0};
  SecondsHistogram step_seconds;
};

}  // namespace swarm::trainer
