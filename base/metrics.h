// The catalogue of metrics: everything that our programs serve at /metrics, in one table.
// docs/metrics.md is this table, and a test holds the two together.
//
// An enumerator names each metric, so a program cannot serve one that is not in the catalogue.
// Names follow Prometheus: base units, `_total` on counters only. Metrics that every operator has
// (reconciles, queues, requests) have the names of controller-runtime and client-go, so that common
// dashboards and alerts work. Pure.
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
  kTrainerRelayedBytes,
  kTrainerCheckpoints,
  kTrainerCheckpointFailures,
  kTrainerDiscardedSteps,
  kTrainerUsefulTasks,
  kTrainerDataReads,
  kTrainerDataRetries,
  kTrainerDataLate,
  kTrainerDataBytes,
  kTrainerRemainingSeconds,
  kTrainerCheckpointVersion,
  kTrainerLosses,
  kTrainerLeaves,
  kTrainerJoins,
  kTrainerMoves,
  kTrainerRecoveries,
  kTrainerRollbacks,
  kTrainerReplays,
  kTrainerRevocations,
  kTrainerAudits,
  kTrainerAuditsWrong,
  kTrainerAuditsUndecided,
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
  kWorkerRelayedBytes,
  kWorkerUnheardNeighbours,
  kWorkerMemoryBytes,
  kWorkerMemoryBudget,
  kWorkerStage,
  kWorkerRegionBytes,
  kNetSentBytes,
  kNetReceivedBytes,
  kNetSentMessages,
  kNetReceivedMessages,
  kNetRefusedMessages,
  kReconciles,
  kReconcileErrors,
  kTerminalReconcileErrors,
  kReconcilePanics,
  kReconcileSeconds,
  kMaxConcurrentReconciles,
  kActiveWorkers,
  kQueueDepth,
  kQueueAdds,
  kQueueSeconds,
  kQueueWorkSeconds,
  kQueueUnfinishedSeconds,
  kQueueLongestSeconds,
  kQueueRetries,
  kApiRequests,
  kApiRequestSeconds,
  kApiRateLimiterSeconds,
  kLeader,
  kOperatorJobs,
  kOperatorCondition,
  kOperatorWorkersDesired,
  kOperatorWorkersReady,
  kOperatorPoolPods,
  kOperatorPodsCreated,
  kOperatorPodEnds,
  kOperatorMoves,
  kOperatorDrains,
  kOperatorAvoidedNodes,
  kOperatorSpent,
  kOperatorDollarsPerHour,
  kOperatorTrafficDollarsPerHour,
  kOperatorBudget,
  kOperatorTrainerSilence,
  kOperatorStatusWrites,
  kOperatorWatchRestarts,
  kOperatorCacheSilence,
  kOperatorClusterConnected,
  kOperatorClusterSilence,
  kSatelliteConnected,
  kSatellitePods,
  kSatelliteRefused,
  kSatelliteCertificateEnd,
};
inline constexpr std::size_t kMetricCount =
    static_cast<std::size_t>(Metric::kSatelliteCertificateEnd) + 1;

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram };

/// Which programs serve a metric; kBoth: the trainer and every stage worker; kSatellite: the
/// operator of a cluster that is a satellite.
enum class MetricServer : std::uint8_t { kTrainer, kStageWorker, kBoth, kOperator, kSatellite };

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
