#include "worker/trainer/export_metrics.h"

#include <map>
#include <string_view>

#include "worker/net/metrics.h"

namespace swarm::trainer {
namespace {

constexpr Duration kDescribeLimit = std::chrono::seconds(1);

void AppendStages(const protocol::JobStatus& status, std::vector<MetricSample>* samples) {
  for (const protocol::StageStatus& stage : status.stages) {
    const std::string index = std::to_string(stage.stage.value);
    std::uint64_t in_flight = 0;
    std::map<std::string_view, int> workers{{NameOf(protocol::WorkerState::kReady), 0}};
    for (const protocol::StageStatus::Worker& worker : stage.workers) {
      in_flight += worker.in_flight;
      ++workers[NameOf(worker.state)];
    }
    samples->push_back({Metric::kTrainerInFlight, {index}, static_cast<double>(in_flight)});
    for (const auto& [state, count] : workers) {
      samples->push_back(
          {Metric::kTrainerWorkers, {index, std::string(state)}, static_cast<double>(count)});
    }
  }
}

void AppendHistory(const protocol::JobStatus& status, std::vector<MetricSample>* samples) {
  const auto append = [&](Metric metric, auto value) {
    samples->push_back({metric, {}, static_cast<double>(value)});
  };
  append(Metric::kTrainerRemainingSeconds, status.seconds_left);
  append(Metric::kTrainerCheckpointVersion, status.checkpoint.version.value);
  append(Metric::kTrainerLosses, status.counts.evictions);
  append(Metric::kTrainerLeaves, status.counts.leaves);
  append(Metric::kTrainerJoins, status.counts.joins);
  append(Metric::kTrainerMoves, status.counts.moves);
  append(Metric::kTrainerRecoveries, status.counts.recoveries);
  append(Metric::kTrainerRollbacks, status.counts.rollbacks);
  append(Metric::kTrainerReplays, status.counts.replays);
  append(Metric::kTrainerRevocations, status.counts.revocations);
  append(Metric::kTrainerAudits, status.counts.audits);
  append(Metric::kTrainerAuditsWrong, status.counts.audits_wrong);
  append(Metric::kTrainerAuditsUndecided, status.counts.audits_undecided);
}

}  // namespace

std::vector<MetricSample> ExportMetrics(Trainer& trainer) {
  std::vector<MetricSample> samples;
  net::AppendMetrics(kTrainerId, trainer.traffic(), &samples);
  const TrainerMetrics& metrics = trainer.metrics();
  const auto append = [&](Metric metric, auto value) {
    samples.push_back({metric, {}, static_cast<double>(value)});
  };
  append(Metric::kTrainerSteps, metrics.steps.load());
  append(Metric::kTrainerSkippedSteps, metrics.skipped_steps.load());
  append(Metric::kTrainerTokens, metrics.tokens.load());
  append(Metric::kTrainerVersion, metrics.version.load());
  append(Metric::kTrainerLoss, metrics.loss.load());
  append(Metric::kTrainerValidationLoss, metrics.validation_loss.load());
  append(Metric::kTrainerGradientNorm, metrics.grad_norm.load());
  append(Metric::kTrainerLearningRate, metrics.learning_rate.load());
  append(Metric::kTrainerTokensPerSecond, metrics.tokens_per_second.load());
  samples.push_back({Metric::kTrainerStepSeconds, {}, metrics.step_seconds.Read()});
  append(Metric::kTrainerBoundaryBytes, metrics.boundary_bytes.load());
  append(Metric::kTrainerRelayedBytes, trainer.traffic().bytes_relayed);
  append(Metric::kTrainerCheckpoints, metrics.checkpoints.load());
  append(Metric::kTrainerCheckpointFailures, metrics.checkpoint_failures.load());
  append(Metric::kTrainerDiscardedSteps, metrics.discarded_steps.load());
  append(Metric::kTrainerUsefulTasks, metrics.useful_tasks.load());
  const data::SequenceReader::Counts data = trainer.data_counts();
  append(Metric::kTrainerDataReads, data.reads);
  append(Metric::kTrainerDataRetries, data.retries);
  append(Metric::kTrainerDataLate, data.late);
  append(Metric::kTrainerDataBytes, data.bytes);
  if (const auto status = trainer.StatusWithin(kDescribeLimit)) {
    AppendStages(*status, &samples);
    AppendHistory(*status, &samples);
  }
  return samples;
}

}  // namespace swarm::trainer
