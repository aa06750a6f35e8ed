// What a satellite serves at /metrics.
#include "operator/satellite/metrics.h"

#include <gmock/gmock.h>

#include <map>

namespace swarm::satellite {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::map<Metric, double> ValuesOf(const SatelliteMetrics& metrics) {
  std::map<Metric, double> values;
  for (const MetricSample& sample : metrics.Read()) {
    EXPECT_EQ(sample.labels.size(), DefinitionOf(sample.metric).labels.size());
    EXPECT_EQ(DefinitionOf(sample.metric).server, MetricServer::kSatellite);
    values[sample.metric] = std::get<double>(sample.value);
  }
  return values;
}

TEST(SatelliteMetricsTest, ASatelliteThatBeginsSaysNothingThatItDoesNotKnow) {
  EXPECT_THAT(ValuesOf(SatelliteMetrics()), ElementsAre(Pair(Metric::kSatelliteConnected, 0),
                                                        Pair(Metric::kSatelliteRefused, 0)));
}

TEST(SatelliteMetricsTest, ItTellsItsConnectionItsPodsItsRefusalsAndTheEndOfItsCertificate) {
  SatelliteMetrics metrics;
  metrics.Connected(true);
  metrics.Keeps(3);
  metrics.Refused();
  metrics.Refused();
  metrics.HasCertificateUntil(std::chrono::system_clock::time_point(std::chrono::seconds(1800)));
  EXPECT_THAT(ValuesOf(metrics),
              ElementsAre(Pair(Metric::kSatelliteConnected, 1), Pair(Metric::kSatellitePods, 3),
                          Pair(Metric::kSatelliteRefused, 2),
                          Pair(Metric::kSatelliteCertificateEnd, 1800)));
  metrics.Connected(false);
  EXPECT_EQ(ValuesOf(metrics)[Metric::kSatelliteConnected], 0);
  EXPECT_EQ(ValuesOf(metrics)[Metric::kSatellitePods], 3) << "they go on";
}

}  // namespace
}  // namespace swarm::satellite
