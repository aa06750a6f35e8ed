#include "operator/satellite/metrics.h"

namespace swarm::satellite {

std::vector<MetricSample> SatelliteMetrics::Read() const {
  std::vector<MetricSample> samples{
      {Metric::kSatelliteConnected, {}, connected_.load() ? 1.0 : 0.0},
      {Metric::kSatelliteRefused, {}, static_cast<double>(refused_.load())}};
  const auto add_known = [&](Metric metric, std::int64_t value) {
    if (value != kUnknown) samples.push_back({metric, {}, static_cast<double>(value)});
  };
  add_known(Metric::kSatellitePods, pods_.load());
  add_known(Metric::kSatelliteCertificateEnd, certificate_end_.load());
  return samples;
}

}  // namespace swarm::satellite
