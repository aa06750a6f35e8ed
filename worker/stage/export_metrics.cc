#include "worker/stage/export_metrics.h"

#include "worker/net/metrics.h"

namespace swarm::stage {
namespace {

/// Metrics whose first two labels are the worker and its stage.
class StageMetrics {
 public:
  StageMetrics(std::string worker, std::string stage, std::vector<MetricSample>* samples)
      : worker_(std::move(worker)), stage_(std::move(stage)), samples_(samples) {}

  template <typename Count>
  void Add(Metric metric, Count value, const std::vector<std::string>& more = {}) {
    Append(metric, static_cast<double>(value), more);
  }
  void Add(Metric metric, const SecondsHistogram& histogram, const std::string& direction) {
    Append(metric, histogram.Read(), {direction});
  }

 private:
  void Append(Metric metric, std::variant<double, HistogramReading> value,
              const std::vector<std::string>& more) {
    std::vector<std::string> labels{worker_, stage_};
    labels.insert(labels.end(), more.begin(), more.end());
    samples_->push_back({metric, std::move(labels), std::move(value)});
  }

  const std::string worker_;
  const std::string stage_;
  std::vector<MetricSample>* const samples_;
};

/// A region as a label. An empty label would be the same as no label.
std::string RegionLabel(const std::string& region) { return region.empty() ? "unknown" : region; }

}  // namespace

std::vector<MetricSample> ExportMetrics(const Worker& worker) {
  std::vector<MetricSample> samples;
  net::AppendMetrics(worker.id(), worker.traffic(), &samples);
  const WorkerMetrics& metrics = worker.metrics();
  const std::int64_t stage = metrics.stage;
  samples.push_back({Metric::kWorkerStage, {worker.id().value}, static_cast<double>(stage)});
  if (stage < 0) return samples;

  StageMetrics all(worker.id().value, std::to_string(stage), &samples);
  all.Add(Metric::kWorkerServiceSeconds, metrics.forward_seconds, "forward");
  all.Add(Metric::kWorkerServiceSeconds, metrics.backward_seconds, "backward");
  // Busy before wall, so that the quotient is at most 1.
  const double busy = worker.busy_seconds();
  const double wall = ToSeconds(Clock::now() - metrics.begin);
  all.Add(Metric::kWorkerBusySeconds, busy);
  all.Add(Metric::kWorkerUtilization, wall > 0 ? busy / wall : 0.0);
  all.Add(Metric::kWorkerQueueDepth, metrics.queued_tasks.load());
  all.Add(Metric::kWorkerParkedFrames, metrics.parked_frames.load());
  for (const auto& [reason, count] : metrics.refused.Read()) {
    all.Add(Metric::kWorkerRefused, count, {std::string(reason)});
  }
  all.Add(Metric::kWorkerCommits, metrics.commits.load());
  all.Add(Metric::kWorkerVersion, metrics.version.load());
  all.Add(Metric::kWorkerReduceBytes, metrics.reduce_bytes.load());
  all.Add(Metric::kWorkerRelayedBytes, metrics.relayed_bytes.load());
  all.Add(Metric::kWorkerUnheardNeighbours, metrics.unheard_neighbours.load());
  for (std::size_t i = 0; i < kMemoryKinds; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    const std::string name(NameOf(kind));
    all.Add(Metric::kWorkerMemoryBytes, worker.memory().bytes(kind), {name});
    all.Add(Metric::kWorkerMemoryBudget, worker.memory().share(kind), {name});
  }
  const std::string own_region = RegionLabel(worker.region());
  const auto add_region_bytes = [&](const std::string& from, const std::string& to,
                                    std::uint64_t bytes) {
    samples.push_back(
        {Metric::kWorkerRegionBytes, {worker.id().value, from, to}, static_cast<double>(bytes)});
  };
  for (const auto& [region, bytes] : metrics.region_bytes.Read()) {
    const std::string other = RegionLabel(region);
    // A label set stands once: within a region both are one.
    if (other == own_region) {
      add_region_bytes(own_region, other, bytes.sent + bytes.copied);
      continue;
    }
    add_region_bytes(own_region, other, bytes.sent);
    if (bytes.copied > 0) add_region_bytes(other, own_region, bytes.copied);
  }
  // The last stage has no boundary behind it, the first none before it.
  if (stage + 1 < static_cast<std::int64_t>(metrics.stages)) {
    all.Add(Metric::kWorkerBoundaryBytes, metrics.boundary_bytes_forward.load(),
            {std::to_string(stage), "forward"});
  }
  if (stage > 0) {
    all.Add(Metric::kWorkerBoundaryBytes, metrics.boundary_bytes_backward.load(),
            {std::to_string(stage - 1), "backward"});
  }
  return samples;
}

}  // namespace swarm::stage
