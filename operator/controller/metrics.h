// The operator's metrics of its own work, for /metrics. base/metrics.h has their names.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/status.h"
#include "base/histogram.h"
#include "base/metrics.h"
#include "base/time.h"
#include "operator/kube/client/metrics.h"
#include "operator/kube/object/object.h"
#include "operator/kube/watch/workqueue.h"
#include "operator/plan/plan.h"

namespace swarm::controller {

/// The labels of all metrics of the reconcile loop and its queue.
inline constexpr const char* kControllerName = "swarmjob";

/// How one reconcile ended. The label values are those of controller-runtime.
enum class ReconcileResult : std::uint8_t { kSuccess, kError, kRequeue, kRequeueAfter };
inline constexpr std::size_t kReconcileResultCount = 4;

/// The phases of worker pods in the metrics of a pool.
/// kStarting: it has a node, which costs, and its program does not run yet.
enum class PoolPodPhase : std::uint8_t { kPending, kStarting, kRunning, kTerminating };

/// The gauges of a job. Each reconcile replaces them all.
struct JobGauges {
  std::optional<api::JobState> state;  ///< none before the first reconcile
  std::uint64_t workers_desired = 0;
  std::uint64_t workers_ready = 0;
  std::vector<std::string> pools;                                           ///< of the manifest
  std::map<std::pair<std::string, PoolPodPhase>, std::uint64_t> pool_pods;  ///< by pool and phase
  std::map<api::ConditionType, bool> conditions;                            ///< whether True
  std::uint64_t avoided_nodes = 0;
  double dollars = 0;           ///< so far, as counted in the status
  double dollars_per_hour = 0;  ///< of machines
  double traffic_dollars_per_hour = 0;
  double budget = 0;  ///< 0: none
  bool has_trainer = false;
  Timepoint
      trainer_heard{};  ///< when it last sent its status; before that, when it was first dialled
};

/// The counters of a job, from when this operator first saw it.
struct JobCounters {
  std::map<plan::PodRole, std::uint64_t> pods_created;
  std::map<std::pair<plan::PodRole, plan::Cause>, std::uint64_t> pod_ends;
  std::uint64_t moves = 0;
  std::uint64_t drains = 0;
};

/// Thread-safe.
class OperatorMetrics {
 public:
  explicit OperatorMetrics(std::uint64_t reconcilers) : reconcilers_(reconcilers) {}

  void ReconcileBegan() { active_.fetch_add(1, std::memory_order_relaxed); }
  void ReconcileEnded(ReconcileResult result, Duration took);
  void ReconcilePanicked() { panics_.fetch_add(1, std::memory_order_relaxed); }
  void StatusWritten() { status_writes_.fetch_add(1, std::memory_order_relaxed); }

  void SetJob(const kube::ObjectName& job, JobGauges gauges);
  /// Adds to the job's counters.
  void Count(const kube::ObjectName& job, const JobCounters& more);
  void ForgetJob(const kube::ObjectName& job);

  /// A sample of each metric.
  std::vector<MetricSample> Read(Timepoint now) const;

 private:
  struct Job {
    JobGauges gauges;
    JobCounters counters;
  };

  const std::uint64_t reconcilers_;
  std::array<std::atomic<std::uint64_t>, kReconcileResultCount> results_{};
  SecondsHistogram seconds_;
  std::atomic<std::uint64_t> active_ = 0, panics_ = 0, status_writes_ = 0;

  mutable std::mutex mutex_;
  std::map<kube::ObjectName, Job> jobs_;  // guarded
};

/// Append the metrics of the work queue and of the Kubernetes client.
void AppendQueue(const kube::WorkQueue::Reading& reading, std::vector<MetricSample>* samples);
void AppendClient(const kube::ClientMetrics::Reading& reading, std::vector<MetricSample>* samples);

}  // namespace swarm::controller
