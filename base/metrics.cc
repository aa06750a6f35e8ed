#include "base/metrics.h"

#include <array>

namespace swarm {
namespace {

using enum MetricType;
using enum MetricServer;

constexpr std::span<const std::string_view> kNoLabels;
constexpr std::array<std::string_view, 1> kStage{"stage"};
constexpr std::array<std::string_view, 2> kStageState{"stage", "state"};
constexpr std::array<std::string_view, 1> kProgram{"program"};
constexpr std::array<std::string_view, 1> kWorkerOnly{"worker"};
constexpr std::array<std::string_view, 3> kWorkerRegions{"worker", "source_region",
                                                         "destination_region"};
constexpr std::array<std::string_view, 2> kWorker{"worker", "stage"};
constexpr std::array<std::string_view, 3> kWorkerDirection{"worker", "stage", "direction"};
constexpr std::array<std::string_view, 3> kWorkerKind{"worker", "stage", "kind"};
constexpr std::array<std::string_view, 3> kWorkerReason{"worker", "stage", "reason"};
constexpr std::array<std::string_view, 4> kWorkerBoundary{"worker", "stage", "boundary",
                                                          "direction"};
constexpr std::array<std::string_view, 1> kController{"controller"};
constexpr std::array<std::string_view, 2> kControllerResult{"controller", "result"};
constexpr std::array<std::string_view, 2> kQueue{"name", "controller"};
constexpr std::array<std::string_view, 3> kCodeMethodHost{"code", "method", "host"};
constexpr std::array<std::string_view, 2> kVerbHost{"verb", "host"};
constexpr std::array<std::string_view, 1> kLease{"name"};
constexpr std::array<std::string_view, 1> kState{"state"};
constexpr std::array<std::string_view, 1> kCluster{"cluster"};
constexpr std::array<std::string_view, 1> kResource{"resource"};
constexpr std::array<std::string_view, 2> kJob{"job_namespace", "swarmjob"};
constexpr std::array<std::string_view, 3> kJobCondition{"job_namespace", "swarmjob", "condition"};
constexpr std::array<std::string_view, 3> kJobRole{"job_namespace", "swarmjob", "role"};
constexpr std::array<std::string_view, 4> kJobRoleCause{"job_namespace", "swarmjob", "role",
                                                        "cause"};
constexpr std::array<std::string_view, 4> kJobPoolPhase{"job_namespace", "swarmjob", "pool",
                                                        "phase"};

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
    {Metric::kTrainerRelayedBytes, "swarmjob_trainer_relayed_bytes_total", kCounter, kTrainer,
     kNoLabels, "Bytes that the trainer passed on, unread, between workers that nobody can dial"},
    {Metric::kTrainerCheckpoints, "swarmjob_trainer_checkpoints_total", kCounter, kTrainer,
     kNoLabels, "Checkpoints published"},
    {Metric::kTrainerCheckpointFailures, "swarmjob_trainer_checkpoint_failures_total", kCounter,
     kTrainer, kNoLabels, "Checkpoints that could not be written or published"},
    {Metric::kTrainerDiscardedSteps, "swarmjob_trainer_discarded_steps_total", kCounter, kTrainer,
     kNoLabels, "Committed steps that a rollback undid, to be computed again"},
    {Metric::kTrainerUsefulTasks, "swarmjob_trainer_useful_tasks_total", kCounter, kTrainer,
     kNoLabels,
     "Forwards and backwards, of one microbatch in one stage, whose results are in committed "
     "steps"},
    {Metric::kTrainerDataReads, "swarmjob_trainer_data_reads_total", kCounter, kTrainer, kNoLabels,
     "Reads of shards"},
    {Metric::kTrainerDataRetries, "swarmjob_trainer_data_retries_total", kCounter, kTrainer,
     kNoLabels, "Reads of shards that failed, and were tried again"},
    {Metric::kTrainerDataLate, "swarmjob_trainer_data_late_sequences_total", kCounter, kTrainer,
     kNoLabels, "Sequences of shards that were not yet there when they were to be sent"},
    {Metric::kTrainerDataBytes, "swarmjob_trainer_data_cache_bytes", kGauge, kTrainer, kNoLabels,
     "Bytes of shards that the trainer keeps, of data.cacheBytes"},
    {Metric::kTrainerRemainingSeconds, "swarmjob_trainer_remaining_seconds", kGauge, kTrainer,
     kNoLabels, "Expected seconds to the last step; 0 when it is done"},
    {Metric::kTrainerCheckpointVersion, "swarmjob_trainer_checkpoint_version", kGauge, kTrainer,
     kNoLabels, "Version of the newest checkpoint that this trainer has published or begun with"},
    {Metric::kTrainerLosses, "swarmjob_trainer_losses_total", kCounter, kTrainer, kNoLabels,
     "Workers that were lost while they served or were about to"},
    {Metric::kTrainerLeaves, "swarmjob_trainer_leaves_total", kCounter, kTrainer, kNoLabels,
     "Workers that handed over what they had and left"},
    {Metric::kTrainerJoins, "swarmjob_trainer_joins_total", kCounter, kTrainer, kNoLabels,
     "Workers that came and serve since then"},
    {Metric::kTrainerMoves, "swarmjob_trainer_moves_total", kCounter, kTrainer, kNoLabels,
     "Workers that left their stage for another one"},
    {Metric::kTrainerRecoveries, "swarmjob_trainer_recoveries_total", kCounter, kTrainer, kNoLabels,
     "Losses of workers after which a step was committed"},
    {Metric::kTrainerRollbacks, "swarmjob_trainer_rollbacks_total", kCounter, kTrainer, kNoLabels,
     "Times that the job went back to a checkpoint, because a stage was lost whole"},
    {Metric::kTrainerReplays, "swarmjob_trainer_replays_total", kCounter, kTrainer, kNoLabels,
     "Contributions to gradients that were lost and computed once more"},
    {Metric::kTrainerRevocations, "swarmjob_trainer_revocations_total", kCounter, kTrainer,
     kNoLabels, "Microbatches that the trainer took from a worker without progress"},
    {Metric::kTrainerAudits, "swarmjob_trainer_audits_total", kCounter, kTrainer, kNoLabels,
     "Microbatches that were executed a second time to compare the results"},
    {Metric::kTrainerAuditsWrong, "swarmjob_trainer_audits_wrong_total", kCounter, kTrainer,
     kNoLabels, "Audits that found a worker to compute wrongly"},
    {Metric::kTrainerAuditsUndecided, "swarmjob_trainer_audits_undecided_total", kCounter, kTrainer,
     kNoLabels, "Audits of which nobody knows who is right, or that could not be finished"},
    {Metric::kTrainerWorkers, "swarmjob_trainer_workers", kGauge, kTrainer, kStageState,
     "Workers of the stage, by state: Loading, Joining, Ready, Leaving or Moving"},
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
    {Metric::kWorkerRelayedBytes, "swarmjob_worker_relayed_bytes_total", kCounter, kStageWorker,
     kWorker, "Payload bytes that the worker sent on for two others that do not reach each other"},
    {Metric::kWorkerUnheardNeighbours, "swarmjob_worker_unheard_neighbours", kGauge, kStageWorker,
     kWorker, "Neighbours that the worker has not heard for too long"},
    {Metric::kWorkerMemoryBytes, "swarmjob_worker_memory_bytes", kGauge, kStageWorker, kWorkerKind,
     "Bytes that the worker holds beside the state that it serves, by what they are for"},
    {Metric::kWorkerMemoryBudget, "swarmjob_worker_memory_budget_bytes", kGauge, kStageWorker,
     kWorkerKind, "Share of the worker's memory budget that each of them has"},
    {Metric::kWorkerStage, "swarmjob_worker_stage", kGauge, kStageWorker, kWorkerOnly,
     "Stage that the worker serves, from 0; -1 while it has none"},
    {Metric::kWorkerRegionBytes, "swarmjob_worker_region_bytes_total", kCounter, kStageWorker,
     kWorkerRegions,
     "Payload bytes of activations, gradients, sums and state, by the regions of the sender and of "
     "the receiver"},
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
    {Metric::kReconciles, "controller_runtime_reconcile_total", kCounter, kOperator,
     kControllerResult, "Reconciles, by result: success, error, requeue or requeue_after"},
    {Metric::kReconcileErrors, "controller_runtime_reconcile_errors_total", kCounter, kOperator,
     kController, "Reconciles that failed and are tried again"},
    {Metric::kTerminalReconcileErrors, "controller_runtime_terminal_reconcile_errors_total",
     kCounter, kOperator, kController,
     "Reconciles that failed in a way that another try cannot mend"},
    {Metric::kReconcilePanics, "controller_runtime_reconcile_panics_total", kCounter, kOperator,
     kController, "Reconciles that ended in an exception"},
    {Metric::kReconcileSeconds, "controller_runtime_reconcile_time_seconds", kHistogram, kOperator,
     kController, "Seconds of one reconcile"},
    {Metric::kMaxConcurrentReconciles, "controller_runtime_max_concurrent_reconciles", kGauge,
     kOperator, kController, "Reconciles that may run at once"},
    {Metric::kActiveWorkers, "controller_runtime_active_workers", kGauge, kOperator, kController,
     "Reconciles that run now"},
    {Metric::kQueueDepth, "workqueue_depth", kGauge, kOperator, kQueue,
     "Keys that wait in the queue"},
    {Metric::kQueueAdds, "workqueue_adds_total", kCounter, kOperator, kQueue,
     "Keys that were added to the queue"},
    {Metric::kQueueSeconds, "workqueue_queue_duration_seconds", kHistogram, kOperator, kQueue,
     "Seconds that a key waits in the queue"},
    {Metric::kQueueWorkSeconds, "workqueue_work_duration_seconds", kHistogram, kOperator, kQueue,
     "Seconds that a key of the queue is worked on"},
    {Metric::kQueueUnfinishedSeconds, "workqueue_unfinished_work_seconds", kGauge, kOperator,
     kQueue, "Seconds that the keys being worked on have taken so far, all together"},
    {Metric::kQueueLongestSeconds, "workqueue_longest_running_processor_seconds", kGauge, kOperator,
     kQueue, "Seconds that the key longest in work has taken so far"},
    {Metric::kQueueRetries, "workqueue_retries_total", kCounter, kOperator, kQueue,
     "Keys that were added again after a failure, with a delay"},
    {Metric::kApiRequests, "rest_client_requests_total", kCounter, kOperator, kCodeMethodHost,
     "Requests to the API server, by HTTP code; <error> where there was no answer"},
    {Metric::kApiRequestSeconds, "rest_client_request_duration_seconds", kHistogram, kOperator,
     kVerbHost, "Seconds from a request to the API server to its answer"},
    {Metric::kApiRateLimiterSeconds, "rest_client_rate_limiter_duration_seconds", kHistogram,
     kOperator, kVerbHost, "Seconds that a request waits for the client's own limit of requests"},
    {Metric::kLeader, "leader_election_master_status", kGauge, kOperator, kLease,
     "1 in the replica that leads, 0 in the others"},
    {Metric::kOperatorJobs, "swarmjob_operator_jobs", kGauge, kOperator, kState,
     "SwarmJobs, by the state in their status"},
    {Metric::kOperatorCondition, "swarmjob_operator_condition", kGauge, kOperator, kJobCondition,
     "1 while the condition of the SwarmJob is True, else 0"},
    {Metric::kOperatorWorkersDesired, "swarmjob_operator_workers_desired", kGauge, kOperator, kJob,
     "Workers that the SwarmJob asks for; 0 while it is suspended or over"},
    {Metric::kOperatorWorkersReady, "swarmjob_operator_workers_ready", kGauge, kOperator, kJob,
     "Workers of the SwarmJob that train"},
    {Metric::kOperatorPoolPods, "swarmjob_operator_pool_pods", kGauge, kOperator, kJobPoolPhase,
     "Workers' pods of the SwarmJob in a pool, by phase: Pending (without a node), Starting, Running or"
     " Terminating"},
    {Metric::kOperatorPodsCreated, "swarmjob_operator_pods_created_total", kCounter, kOperator,
     kJobRole, "Pods that this process has created"},
    {Metric::kOperatorPodEnds, "swarmjob_operator_pod_ends_total", kCounter, kOperator,
     kJobRoleCause,
     "Pods that ended before their job, by what the evidence says: Preemption, Failure or Unknown"},
    {Metric::kOperatorMoves, "swarmjob_operator_moves_total", kCounter, kOperator, kJob,
     "Workers that this process told to go to another stage"},
    {Metric::kOperatorDrains, "swarmjob_operator_drains_total", kCounter, kOperator, kJob,
     "Workers that this process told to hand over and leave, before their node ends"},
    {Metric::kOperatorAvoidedNodes, "swarmjob_operator_avoided_nodes", kGauge, kOperator, kJob,
     "Nodes that new pods of the SwarmJob avoid, because its pods failed there"},
    {Metric::kOperatorSpent, "swarmjob_operator_spent_dollars", kGauge, kOperator, kJob,
     "Dollars that the SwarmJob has cost since it began, by the prices of its manifest"},
    {Metric::kOperatorDollarsPerHour, "swarmjob_operator_dollars_per_hour", kGauge, kOperator, kJob,
     "Dollars an hour of the machines that the SwarmJob's workers hold"},
    {Metric::kOperatorTrafficDollarsPerHour, "swarmjob_operator_traffic_dollars_per_hour", kGauge,
     kOperator, kJob, "Dollars an hour of what the SwarmJob's workers exchange between regions"},
    {Metric::kOperatorBudget, "swarmjob_operator_budget_dollars", kGauge, kOperator, kJob,
     "Dollars that the SwarmJob may cost; 0: it has no budget"},
    {Metric::kOperatorTrainerSilence, "swarmjob_operator_trainer_silence_seconds", kGauge,
     kOperator, kJob, "Seconds since the trainer last answered; 0 for a job that has none"},
    {Metric::kOperatorStatusWrites, "swarmjob_operator_status_writes_total", kCounter, kOperator,
     kNoLabels, "Writes of a SwarmJob's status"},
    {Metric::kOperatorWatchRestarts, "swarmjob_operator_watch_restarts_total", kCounter, kOperator,
     kResource, "Lists that were needed because a watch could not go on"},
    {Metric::kOperatorCacheSilence, "swarmjob_operator_cache_silence_seconds", kGauge, kOperator,
     kResource,
     "Seconds since the API server last confirmed what the operator has of the resource"},
    {Metric::kOperatorClusterConnected, "swarmjob_operator_cluster_connected", kGauge, kOperator,
     kCluster,
     "1 while the leading operator reaches the other cluster through its satellite; 0 while it does"
     " not, and jobs have pools or pods there"},
    {Metric::kOperatorClusterSilence, "swarmjob_operator_cluster_silence_seconds", kGauge,
     kOperator, kCluster,
     "Seconds since the operator last heard the API server of the other cluster; of one that has"
     " not come, since the operator began to look"},
    {Metric::kSatelliteConnected, "swarmjob_satellite_connected", kGauge, kSatellite, kNoLabels,
     "1 while home has this satellite's connection, else 0"},
    {Metric::kSatellitePods, "swarmjob_satellite_pods", kGauge, kSatellite, kNoLabels,
     "Pods of home's jobs in this cluster, counted once a minute"},
    {Metric::kSatelliteRefused, "swarmjob_satellite_refused_requests_total", kCounter, kSatellite,
     kNoLabels,
     "Requests of home that the satellite did not carry out, since home has no use for"
     " them"},
    {Metric::kSatelliteCertificateEnd, "swarmjob_satellite_certificate_end_timestamp_seconds",
     kGauge, kSatellite, kNoLabels,
     "When the satellite's certificate ends, in seconds since 1970; absent before it has one"},
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
