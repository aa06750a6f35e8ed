// What the operator counts of its own work, for /metrics. The names are in base/metrics.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/metrics.h"
#include "base/time.h"
#include "operator/kube/metrics.h"
#include "operator/kube/object/object.h"
#include "operator/kube/watch/workqueue.h"

namespace swarm::controller {

/// The labels of all metrics of the reconcile loop and its queue.
inline constexpr const char* kControllerName = "swarmjob";

/// How one reconcile ended, in the words of controller-runtime.
enum class ReconcileResult : std::uint8_t { kSuccess, kError, kRequeue, kRequeueAfter };
inline constexpr std::size_t kReconcileResultCount = 4;

/// What holds for a job now. Replaced whole by each reconcile.
struct JobGauges {
  std::string state;  ///< as in its status
  std::uint64_t workers_desired = 0;
  std::uint64_t workers_ready = 0;
  std::map<std::pair<std::string, std::string>, std::uint64_t>
      pool_pods;                           ///< by pool and phase:
                                           ///< Pending, Running, Terminating
  std::vector<std::string> pools;          ///< of the manifest
  std::map<std::string, bool> conditions;  ///< whether True
  bool has_trainer = false;
  Timepoint trainer_heard{};  ///< or, before it has said a word, when it was first dialled
};

/// What happened to a job since this operator has it.
struct JobCounters {
  std::map<std::string, std::uint64_t> pods_created;                      ///< by role
  std::map<std::pair<std::string, std::string>, std::uint64_t> pod_ends;  ///< by role and cause
  std::uint64_t moves = 0;
  std::uint64_t drains = 0;
};

/// Thread-safe.
class Figures {
 public:
  explicit Figures(std::uint64_t reconcilers) : reconcilers_(reconcilers) {}

  void ReconcileBegan() { active_.fetch_add(1, std::memory_order_relaxed); }
  void ReconcileEnded(ReconcileResult result, Duration took);
  void ReconcilePanicked() { panics_.fetch_add(1, std::memory_order_relaxed); }
  void StatusWritten() { status_writes_.fetch_add(1, std::memory_order_relaxed); }

  void SetJob(const kube::ObjectName& job, JobGauges gauges);
  /// Adds to the job's counters.
  void Count(const kube::ObjectName& job, const JobCounters& more);
  void ForgetJob(const kube::ObjectName& job);

  /// Samples of all that is counted here.
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

/// Samples of the queue and of the client.
void AppendQueue(const kube::WorkQueue::Reading& reading, std::vector<MetricSample>* samples);
void AppendClient(const kube::ClientMetrics::Reading& reading, std::vector<MetricSample>* samples);

}  // namespace swarm::controller
