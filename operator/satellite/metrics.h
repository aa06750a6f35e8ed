// A satellite's metrics of its own work, for /metrics. base/metrics.h has their names.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/metrics.h"

namespace swarm::satellite {

/// Thread-safe.
class SatelliteMetrics {
 public:
  /// Home has taken the connection, or it has ended.
  void Connected(bool connected) { connected_.store(connected, std::memory_order_relaxed); }
  /// A request of home was not carried out, since home has no use for it.
  void Refused() { refused_.fetch_add(1, std::memory_order_relaxed); }
  /// Pods of home's jobs that are in this cluster.
  void Keeps(std::uint64_t pods) { pods_.store(static_cast<std::int64_t>(pods)); }
  void HasCertificateUntil(std::chrono::system_clock::time_point end) {
    certificate_end_.store(
        std::chrono::floor<std::chrono::seconds>(end).time_since_epoch().count());
  }

  /// A sample of each metric; of pods and the certificate once they are known.
  std::vector<MetricSample> Read() const;

 private:
  static constexpr std::int64_t kUnknown = -1;
  std::atomic<bool> connected_ = false;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<std::int64_t> pods_ = kUnknown;
  std::atomic<std::int64_t> certificate_end_ = kUnknown;  // seconds since 1970
};

}  // namespace swarm::satellite
