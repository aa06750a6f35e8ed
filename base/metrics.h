// The catalogue of metrics: everything that the programs of a job serve at /metrics, in one table.
// docs/metrics.md is this table, and a test holds the two together.
//
// A metric is named by an enumerator, so what is not in the catalogue cannot be served. Names
// follow Prometheus: base units, `_total` on counters and on nothing else. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/histogram.h"

namespace swarm {

enum class Metric : std::uint8_t {
  kTrainerSteps,
  kTrainerSkippedSteps,
  kTrainerTokens,
  kTrainerVersion,
  kTrainerLoss,
  kTrainerValidationLoss,
  kTrainerGradientNorm,
  kTrainerLearningRate,
  kTrainerTokensPerSecond,
  kTrainerStepSeconds,
  kTrainerBoundaryBytes,
  kTrainerCheckpoints,
  kTrainerCheckpointFailures,
  kTrainerWorkers,
  kTrainerInFlight,
  kWorkerServiceSeconds,
  kWorkerBusySeconds,
  kWorkerUtilization,
  kWorkerQueueDepth,
  kWorkerParkedFrames,
  kWorkerRefused,
  kWorkerCommits,
  kWorkerVersion,
  kWorkerBoundaryBytes,
  kWorkerReduceBytes,
  kNetSentBytes,
  kNetReceivedBytes,
  kNetSentMessages,
  kNetReceivedMessages,
  kNetRefusedMessages,
};
inline constexpr std::size_t kMetricCount =
    static_cast<std::size_t>(Metric::kNetRefusedMessages) + 1;

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram };

/// Which programs serve a metric.
enum class MetricServer : std::uint8_t { kTrainer, kStageWorker, kBoth };

struct MetricDefinition {
  Metric metric;
  std::string_view name;
  MetricType type;
  MetricServer server;
  std::span<const std::string_view> labels;  ///< names
  std::string_view help;
};

/// All metrics, in the order of the enumerators.
std::span<const MetricDefinition, kMetricCount> MetricCatalogue();
const MetricDefinition& DefinitionOf(Metric metric);

/// "counter", "gauge", "histogram".
std::string_view NameOf(MetricType type);

/// One value that a program serves. Requires: as many label values as the definition has names, and
/// a HistogramReading for histograms only.
struct MetricSample {
  Metric metric;
  std::vector<std::string> labels;  ///< values
  std::variant<double, HistogramReading> value;
};

}  // namespace swarm
