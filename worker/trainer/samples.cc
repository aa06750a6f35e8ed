#include "worker/trainer/samples.h"

#include "worker/net/samples.h"

namespace swarm::trainer {
namespace {

constexpr Duration kDescribeLimit = std::chrono::seconds(1);

void AppendStages(const protocol::JobStatus& status, std::vector<MetricSample>* samples) {
  for (const protocol::StageStatus& stage : status.stages) {
    std::uint64_t in_flight = 0;
    for (const protocol::StageStatus::Worker& worker : stage.workers) in_flight += worker.in_flight;
    const std::string index = std::to_string(stage.stage.value);
    samples->push_back(
        {Metric::kTrainerWorkers, {index}, static_cast<double>(stage.workers.size())});
    samples->push_back({Metric::kTrainerInFlight, {index}, static_cast<double>(in_flight)});
  }
}

}  // namespace

std::vector<MetricSample> ReadSamples(Trainer& trainer) {
  std::vector<MetricSample> samples;
  net::AppendSamples(kTrainerId, trainer.traffic(), &samples);
  const TrainerCounters& counters = trainer.counters();
  const auto append = [&](Metric metric, auto value) {
    samples.push_back({metric, {}, static_cast<double>(value)});
  };
  append(Metric::kTrainerSteps, counters.steps.load());
  append(Metric::kTrainerSkippedSteps, counters.skipped_steps.load());
  append(Metric::kTrainerTokens, counters.tokens.load());
  append(Metric::kTrainerVersion, counters.version.load());
  append(Metric::kTrainerLoss, counters.loss.load());
  append(Metric::kTrainerValidationLoss, counters.validation_loss.load());
  append(Metric::kTrainerGradientNorm, counters.grad_norm.load());
  append(Metric::kTrainerLearningRate, counters.learning_rate.load());
  append(Metric::kTrainerTokensPerSecond, counters.tokens_per_second.load());
  samples.push_back({Metric::kTrainerStepSeconds, {}, counters.step_seconds.Read()});
  append(Metric::kTrainerBoundaryBytes, counters.boundary_bytes.load());
  append(Metric::kTrainerCheckpoints, counters.checkpoints.load());
  append(Metric::kTrainerCheckpointFailures, counters.checkpoint_failures.load());
  if (const auto status = trainer.StatusWithin(kDescribeLimit)) AppendStages(*status, &samples);
  return samples;
}

}  // namespace swarm::trainer
