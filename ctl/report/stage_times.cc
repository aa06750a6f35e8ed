#include "ctl/report/stage_times.h"

#include <algorithm>
#include <cmath>

namespace swarm::ctl {
namespace {

double OrZero(double value) { return std::isfinite(value) ? std::max(0.0, value) : 0; }

/// Seconds of the step beyond the usual, if an incident covers it. Incidents come in the order of
/// their steps, and so do the calls.
class Delays {
 public:
  explicit Delays(const Disturbances& disturbances) : disturbances_(disturbances) {}

  double Of(const StepRow& row) {
    const auto& incidents = disturbances_.incidents;
    while (next_ < incidents.size() && incidents[next_].last_step < row.step) ++next_;
    const bool covered = next_ < incidents.size() && incidents[next_].first_step <= row.step;
    const bool slow = row.seconds > disturbances_.slow_seconds && disturbances_.usual_seconds > 0;
    return covered && slow ? row.seconds - disturbances_.usual_seconds : 0;
  }

 private:
  const Disturbances& disturbances_;
  std::size_t next_ = 0;
};

void Add(const StageRow& row, double seconds, double delay, StageSeconds* sum) {
  const auto workers = static_cast<double>(row.workers);
  const double present = seconds * workers;
  // A heartbeat may bring some work with the next step. So the parts of one step are cut to it.
  const double tasks = std::min(present, OrZero(row.task_seconds));
  const double busy = std::clamp(OrZero(row.busy_seconds), tasks, present);
  double idle = present - busy;
  const auto take = [&](double most) {
    const double taken = std::min(idle, most);
    idle -= taken;
    return taken;
  };
  sum->present += present;
  sum->tasks += tasks;
  sum->state += busy - tasks;
  sum->summing += take(OrZero(row.reduce_seconds) * workers);
  sum->recovery += take(delay * workers);
  sum->waiting += idle;
}

}  // namespace

std::vector<StageSeconds> WhereTimeWent(const RunRecord& record, const Disturbances& disturbances) {
  std::vector<StageSeconds> stages;
  Delays delays(disturbances);
  for (const StepRow& row : record.steps) {
    stages.resize(std::max(stages.size(), row.stages.size()));
    const double delay = delays.Of(row);
    for (std::size_t s = 0; s < row.stages.size(); ++s) {
      Add(row.stages[s], OrZero(row.seconds), delay, &stages[s]);
    }
  }
  return stages;
}

std::optional<api::DollarRange> CostOf(const RunRecord& record) {
  double hours = 0;
  for (const StepRow& row : record.steps) {
    if (row.stages.empty()) return std::nullopt;
    for (const StageRow& stage : row.stages) {
      hours += OrZero(row.seconds) * static_cast<double>(stage.workers) / api::kSecondsPerHour;
    }
  }
  return hours > 0 ? api::Times(api::WorkerPrices(record.job.spec), hours) : std::nullopt;
}

}  // namespace swarm::ctl
