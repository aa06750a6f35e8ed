// How long things took, counted by thread-safe counters in fixed buckets.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace swarm {

/// The upper bounds of all buckets but the last, in seconds: from a small model's microbatch to a
/// slow step.
inline constexpr std::array<double, 17> kSecondsBounds{
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};

/// A histogram as it was at some moment.
struct HistogramReading {
  /// Observations in each bucket, not cumulated; the last bucket has no upper bound.
  std::array<std::uint64_t, kSecondsBounds.size() + 1> counts{};
  double sum = 0;
};

/// Thread-safe, never blocks. A reading that overlaps an observation may lack it in the counts, in
/// the sum, or in both; the next one has it.
class SecondsHistogram {
 public:
  void Observe(double seconds) {
    const auto bucket = std::lower_bound(kSecondsBounds.begin(), kSecondsBounds.end(), seconds);
    counts_[static_cast<std::size_t>(bucket - kSecondsBounds.begin())].fetch_add(
        1, std::memory_order_relaxed);
    sum_.fetch_add(seconds, std::memory_order_relaxed);
  }

  HistogramReading Read() const {
    HistogramReading reading;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      reading.counts[i] = counts_[i].load(std::memory_order_relaxed);
    }
    reading.sum = sum_.load(std::memory_order_relaxed);
    return reading;
  }

 private:
  std::array<std::atomic<std::uint64_t>, kSecondsBounds.size() + 1> counts_{};
  std::atomic<double> sum_{0};
};

}  // namespace swarm
