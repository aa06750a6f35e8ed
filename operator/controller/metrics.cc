#include "operator/controller/metrics.h"

#include "api/format/enum_names.h"
#include "operator/names/names.h"

namespace swarm::controller {
namespace {

constexpr std::array<const char*, kReconcileResultCount> kResultNames{"success", "error", "requeue",
                                                                      "requeue_after"};
constexpr std::pair<PoolPodPhase, const char*> kPhases[] = {
    {PoolPodPhase::kPending, "Pending"},
    {PoolPodPhase::kStarting, "Starting"},
    {PoolPodPhase::kRunning, "Running"},
    {PoolPodPhase::kTerminating, "Terminating"}};
constexpr plan::PodRole kRoles[] = {plan::PodRole::kWorker, plan::PodRole::kTrainer};
constexpr std::pair<plan::Cause, const char*> kCauses[] = {{plan::Cause::kPreempted, "Preemption"},
                                                           {plan::Cause::kFailed, "Failure"},
                                                           {plan::Cause::kUnknown, "Unknown"}};

/// The value at `key`, or 0. Every series exists from the start, because a series that appears
/// later has no rate for its first increment.
template <typename Key>
double ValueOf(const std::map<Key, std::uint64_t>& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? 0 : static_cast<double>(found->second);
}

/// Appends the samples of one job.
class JobSamples {
 public:
  JobSamples(const kube::ObjectName& job, std::vector<MetricSample>* samples)
      : job_(job), samples_(samples) {}

  void Add(Metric metric, double value, std::vector<std::string> more = {}) {
    std::vector<std::string> labels{job_.ns, job_.name};
    labels.insert(labels.end(), more.begin(), more.end());
    samples_->push_back({metric, std::move(labels), value});
  }

  void AddGauges(const JobGauges& gauges, Timepoint now) {
    Add(Metric::kOperatorWorkersDesired, static_cast<double>(gauges.workers_desired));
    Add(Metric::kOperatorWorkersReady, static_cast<double>(gauges.workers_ready));
    Add(Metric::kOperatorAvoidedNodes, static_cast<double>(gauges.avoided_nodes));
    Add(Metric::kOperatorSpent, gauges.dollars);
    Add(Metric::kOperatorDollarsPerHour, gauges.dollars_per_hour);
    Add(Metric::kOperatorTrafficDollarsPerHour, gauges.traffic_dollars_per_hour);
    Add(Metric::kOperatorBudget, gauges.budget);
    Add(Metric::kOperatorTrainerSilence,
        gauges.has_trainer ? ToSeconds(now - gauges.trainer_heard) : 0);
    for (const auto& [condition, is_true] : gauges.conditions) {
      Add(Metric::kOperatorCondition, is_true, {std::string(NameOf(condition))});
    }
    for (const std::string& pool : gauges.pools) {
      for (const auto& [phase, name] : kPhases) {
        Add(Metric::kOperatorPoolPods, ValueOf(gauges.pool_pods, {pool, phase}), {pool, name});
      }
    }
  }

  void AddCounters(const JobCounters& counters) {
    Add(Metric::kOperatorMoves, static_cast<double>(counters.moves));
    Add(Metric::kOperatorDrains, static_cast<double>(counters.drains));
    for (const plan::PodRole role : kRoles) {
      const char* const role_name = names::RoleName(role);
      Add(Metric::kOperatorPodsCreated, ValueOf(counters.pods_created, role), {role_name});
      for (const auto& [cause, name] : kCauses) {
        Add(Metric::kOperatorPodEnds, ValueOf(counters.pod_ends, {role, cause}), {role_name, name});
      }
    }
  }

 private:
  const kube::ObjectName& job_;
  std::vector<MetricSample>* const samples_;
};

}  // namespace

void OperatorMetrics::ReconcileEnded(ReconcileResult result, Duration took) {
  results_[static_cast<std::size_t>(result)].fetch_add(1, std::memory_order_relaxed);
  seconds_.Observe(ToSeconds(took));
  active_.fetch_sub(1, std::memory_order_relaxed);
}

void OperatorMetrics::SetJob(const kube::ObjectName& job, JobGauges gauges) {
  const std::lock_guard lock(mutex_);
  jobs_[job].gauges = std::move(gauges);
}

void OperatorMetrics::Count(const kube::ObjectName& job, const JobCounters& more) {
  const std::lock_guard lock(mutex_);
  JobCounters& counters = jobs_[job].counters;
  for (const auto& [role, count] : more.pods_created) counters.pods_created[role] += count;
  for (const auto& [key, count] : more.pod_ends) counters.pod_ends[key] += count;
  counters.moves += more.moves;
  counters.drains += more.drains;
}

void OperatorMetrics::ForgetJob(const kube::ObjectName& job) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(job);
}

std::vector<MetricSample> OperatorMetrics::Read(Timepoint now) const {
  std::vector<MetricSample> samples;
  const auto add = [&](Metric metric, const std::atomic<std::uint64_t>& value) {
    samples.push_back({metric, {kControllerName}, static_cast<double>(value.load())});
  };
  for (std::size_t i = 0; i < kReconcileResultCount; ++i) {
    samples.push_back({Metric::kReconciles,
                       {kControllerName, kResultNames[i]},
                       static_cast<double>(results_[i].load())});
  }
  add(Metric::kReconcileErrors, results_[static_cast<std::size_t>(ReconcileResult::kError)]);
  add(Metric::kReconcilePanics, panics_);
  add(Metric::kActiveWorkers, active_);
  samples.push_back({Metric::kTerminalReconcileErrors, {kControllerName}, 0.0});
  samples.push_back({Metric::kReconcileSeconds, {kControllerName}, seconds_.Read()});
  samples.push_back(
      {Metric::kMaxConcurrentReconciles, {kControllerName}, static_cast<double>(reconcilers_)});
  samples.push_back(
      {Metric::kOperatorStatusWrites, {}, static_cast<double>(status_writes_.load())});

  const std::lock_guard lock(mutex_);
  std::map<api::JobState, std::uint64_t> states;
  for (const auto& [name, job] : jobs_) {
    if (job.gauges.state) ++states[*job.gauges.state];
    JobSamples of_job(name, &samples);
    of_job.AddGauges(job.gauges, now);
    of_job.AddCounters(job.counters);
  }
  for (const auto& [state, name] : EnumNames<api::JobState>::kNames) {
    samples.push_back({Metric::kOperatorJobs, {std::string(name)}, ValueOf(states, state)});
  }
  return samples;
}

void AppendQueue(const kube::WorkQueue::Reading& reading, std::vector<MetricSample>* samples) {
  const std::vector<std::string> labels{kControllerName, kControllerName};
  const auto add = [&](Metric metric, std::variant<double, HistogramReading> value) {
    samples->push_back({metric, labels, std::move(value)});
  };
  add(Metric::kQueueDepth, static_cast<double>(reading.depth));
  add(Metric::kQueueAdds, static_cast<double>(reading.adds));
  add(Metric::kQueueRetries, static_cast<double>(reading.retries));
  add(Metric::kQueueUnfinishedSeconds, reading.unfinished_seconds);
  add(Metric::kQueueLongestSeconds, reading.longest_running_seconds);
  add(Metric::kQueueSeconds, reading.queue_seconds);
  add(Metric::kQueueWorkSeconds, reading.work_seconds);
}

void AppendClient(const kube::ClientMetrics::Reading& reading, std::vector<MetricSample>* samples) {
  for (const auto& requests : reading.requests) {
    samples->push_back({Metric::kApiRequests,
                        {requests.code, requests.method, requests.host},
                        static_cast<double>(requests.count)});
  }
  for (const auto& seconds : reading.request_seconds) {
    samples->push_back({Metric::kApiRequestSeconds, {seconds.verb, seconds.host}, seconds.reading});
  }
  for (const auto& seconds : reading.rate_limiter_seconds) {
    samples->push_back(
        {Metric::kApiRateLimiterSeconds, {seconds.verb, seconds.host}, seconds.reading});
  }
}

}  // namespace swarm::controller
