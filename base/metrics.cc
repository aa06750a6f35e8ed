#include "base/metrics.h"

#include <array>

namespace swarm {
namespace {

using enum MetricType;
using enum MetricServer;

constexpr std::span<const std::string_view> kNoLabels;
constexpr std::array<std::string_view, 1> kStage{"stage"};
constexpr std::array<std::string_view, 1> kProgram{"program"};
constexpr std::array<std::string_view, 2> kWorker{"worker", "stage"};
constexpr std::array<std::string_view, 3> kWorkerDirection{"worker", "stage", "direction"};
constexpr std::array<std::string_view, 3> kWorkerReason{"worker", "stage", "reason"};
constexpr std::array<std::string_view, 4> kWorkerBoundary{"worker", "stage", "boundary",
                                                          "direction"};

constexpr std::array<MetricDefinition, kMetricCount> kCatalogue{{
    {Metric::kTrainerSteps, "swarmjob_trainer_steps_total", kCounter, kTrainer, kNoLabels,
     "Optimizer steps committed by this trainer process"},
    {Metric::kTrainerSkippedSteps, "swarmjob_trainer_skipped_steps_total", kCounter, kTrainer,
     kNoLabels, "Steps committed without an update, because a gradient was not finite"},
    {Metric::kTrainerTokens, "swarmjob_trainer_tokens_total", kCounter, kTrainer, kNoLabels,
     "Tokens trained on, in the steps committed by this trainer process"},
    {Metric::kTrainerVersion, "swarmjob_trainer_version", kGauge, kTrainer, kNoLabels,
     "Version of the weights: steps committed since the job began"},
    {Metric::kTrainerLoss, "swarmjob_trainer_loss", kGauge, kTrainer, kNoLabels,
     "Mean training loss of the last step in nats per token; NaN before the first"},
    {Metric::kTrainerValidationLoss, "swarmjob_trainer_validation_loss", kGauge, kTrainer,
     kNoLabels, "Mean validation loss of the last validation in nats per token; NaN before it"},
    {Metric::kTrainerGradientNorm, "swarmjob_trainer_gradient_norm", kGauge, kTrainer, kNoLabels,
     "Norm of the last step's gradient before clipping; NaN before the first step"},
    {Metric::kTrainerLearningRate, "swarmjob_trainer_learning_rate", kGauge, kTrainer, kNoLabels,
     "Learning rate of the last step; NaN before the first"},
    {Metric::kTrainerTokensPerSecond, "swarmjob_trainer_tokens_per_second", kGauge, kTrainer,
     kNoLabels, "Tokens of the last step by the seconds it took"},
    {Metric::kTrainerStepSeconds, "swarmjob_trainer_step_duration_seconds", kHistogram, kTrainer,
     kNoLabels, "Seconds from one committed step to the next"},
    {Metric::kTrainerBoundaryBytes, "swarmjob_trainer_boundary_bytes_total", kCounter, kTrainer,
     kNoLabels, "Bytes of activations and gradients sent between stages for committed steps"},
    {Metric::kTrainerCheckpoints, "swarmjob_trainer_checkpoints_total", kCounter, kTrainer,
     kNoLabels, "Checkpoints published"},
    {Metric::kTrainerCheckpointFailures, "swarmjob_trainer_checkpoint_failures_total", kCounter,
     kTrainer, kNoLabels, "Checkpoints that could not be written or published"},
    {Metric::kTrainerWorkers, "swarmjob_trainer_workers", kGauge, kTrainer, kStage,
     "Workers that have the stage"},
    {Metric::kTrainerInFlight, "swarmjob_trainer_in_flight_microbatches", kGauge, kTrainer, kStage,
     "Microbatches issued to workers of the stage and not done there"},
    {Metric::kWorkerServiceSeconds, "swarmjob_worker_service_seconds", kHistogram, kStageWorker,
     kWorkerDirection, "Compute seconds of one microbatch, forward or backward"},
    {Metric::kWorkerBusySeconds, "swarmjob_worker_busy_seconds_total", kCounter, kStageWorker,
     kWorker, "Seconds that the compute thread has worked"},
    {Metric::kWorkerUtilization, "swarmjob_worker_utilization_ratio", kGauge, kStageWorker, kWorker,
     "Busy compute seconds by wall seconds since the worker began"},
    {Metric::kWorkerQueueDepth, "swarmjob_worker_queue_depth", kGauge, kStageWorker, kWorker,
     "Forwards and backwards that are ordered and not done"},
    {Metric::kWorkerParkedFrames, "swarmjob_worker_parked_frames", kGauge, kStageWorker, kWorker,
     "Forwards that wait for a version of the weights that is not here yet"},
    {Metric::kWorkerRefused, "swarmjob_worker_refused_total", kCounter, kStageWorker, kWorkerReason,
     "Frames and orders that were refused as late, doubled or not meant for this worker"},
    {Metric::kWorkerCommits, "swarmjob_worker_commits_total", kCounter, kStageWorker, kWorker,
     "Steps applied to the worker's weights"},
    {Metric::kWorkerVersion, "swarmjob_worker_version", kGauge, kStageWorker, kWorker,
     "Version of the worker's weights"},
    {Metric::kWorkerBoundaryBytes, "swarmjob_worker_boundary_bytes_total", kCounter, kStageWorker,
     kWorkerBoundary,
     "Payload bytes sent over boundary b, between stages b and b + 1: activations forward, "
     "gradients backward"},
    {Metric::kWorkerReduceBytes, "swarmjob_worker_reduce_bytes_total", kCounter, kStageWorker,
     kWorker, "Payload bytes sent to sum gradients with other workers"},
    {Metric::kNetSentBytes, "swarmjob_net_sent_bytes_total", kCounter, kBoth, kProgram,
     "Bytes sent to all peers, headers and payloads"},
    {Metric::kNetReceivedBytes, "swarmjob_net_received_bytes_total", kCounter, kBoth, kProgram,
     "Bytes received from all peers, headers and payloads"},
    {Metric::kNetSentMessages, "swarmjob_net_sent_messages_total", kCounter, kBoth, kProgram,
     "Messages sent to all peers"},
    {Metric::kNetReceivedMessages, "swarmjob_net_received_messages_total", kCounter, kBoth,
     kProgram, "Messages received from all peers"},
    {Metric::kNetRefusedMessages, "swarmjob_net_refused_messages_total", kCounter, kBoth, kProgram,
     "Messages that were malformed, too large, or of a wrong checksum"},
}};

constexpr bool InOrder() {
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    if (kCatalogue[i].metric != static_cast<Metric>(i)) return false;
  }
  return true;
}
static_assert(InOrder(), "the catalogue has one row for each enumerator, in their order");

}  // namespace

std::span<const MetricDefinition, kMetricCount> MetricCatalogue() { return kCatalogue; }

const MetricDefinition& DefinitionOf(Metric metric) {
  return kCatalogue[static_cast<std::size_t>(metric)];
}

std::string_view NameOf(MetricType type) {
  switch (type) {
    case kCounter:
      return "counter";
    case kGauge:
      return "gauge";
    case kHistogram:
      return "histogram";
  }
  return "";
}

}  // namespace swarm
