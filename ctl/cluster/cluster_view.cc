#include "ctl/cluster/cluster_view.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "api/format/enum_names.h"
#include "base/dollars.h"
#include "base/short_time.h"
#include "ctl/format.h"
#include "ctl/view/live_view.h"
#include "operator/names/names.h"

namespace swarm::ctl {
namespace {

using Row = std::vector<std::string>;

std::string Ago(api::WallTime now, api::WallTime then) {
  return ShortTime(static_cast<double>(std::max<std::int64_t>((now - then).count(), 0)));
}

/// "2/2 1/2": ready of wanted, by stage.
std::string Stages(const api::SwarmJobStatus& status) {
  std::string text;
  for (std::size_t i = 0; i < status.plan.layout.size(); ++i) {
    const std::uint64_t ready = i < status.stages.size() ? status.stages[i].ready : 0;
    text +=
        (i > 0 ? " " : "") + std::to_string(ready) + "/" + std::to_string(status.plan.layout[i]);
  }
  return text.empty() ? "-" : text;
}

std::string Checkpoint(const api::SwarmJobStatus& status, api::WallTime now) {
  if (status.lastCheckpoint.step == 0) return "-";
  std::string text = "step " + std::to_string(status.lastCheckpoint.step);
  if (status.lastCheckpoint.time) text += ", " + Ago(now, *status.lastCheckpoint.time) + " ago";
  return text;
}

/// "2.3456", "5.2k", "1h02m".
Row ProgressCells(const Progress& progress) {
  return {std::isnan(progress.loss) ? "-" : Format("%.4f", progress.loss),
          std::isnan(progress.tokens_per_second) ? "-" : ShortNumber(progress.tokens_per_second),
          std::isnan(progress.seconds_left) ? "-" : ShortTime(progress.seconds_left)};
}

Row RowOf(const objects::JobView& job, api::WallTime now) {
  const api::SwarmJobStatus& status = job.status;
  return {job.ns,
          job.name,
          std::string(NameOf(status.state)),
          std::to_string(status.step) + "/" + std::to_string(job.job.spec.training.maxSteps),
          std::to_string(status.readyReplicas) + "/" + std::to_string(status.plan.replicas),
          Stages(status),
          std::to_string(status.preemptions),
          std::to_string(status.failures),
          Checkpoint(status, now),
          Ago(now, job.creation_time)};
}

std::string PhaseOf(const plan::ObservedPod& pod) {
  if (pod.deleted) return "Terminating";
  if (!pod.waiting_reason.empty()) return pod.waiting_reason;
  switch (pod.phase) {
    case plan::PodPhase::kPending:
      return "Pending";
    case plan::PodPhase::kRunning:
      return pod.ready ? "Ready" : "Running";
    case plan::PodPhase::kSucceeded:
      return "Succeeded";
    case plan::PodPhase::kFailed:
      return pod.reason.empty() ? "Failed" : pod.reason;
    case plan::PodPhase::kUnknown:
      return "Unknown";
  }
  return "";
}

/// "$12.35", "$0.80"; of a job whose pools have no prices "-".
Row CostCells(const api::CostStatus& cost) {
  const double per_hour = api::DollarsPerHour(cost);
  return {cost.spent.empty() ? "-" : cost.spent, per_hour > 0 ? DollarText(per_hour) : "-"};
}

/// Puts columns before the last one.
void AddColumns(const Row& names, const std::vector<objects::JobView>& jobs,
                const std::function<Row(const objects::JobView&)>& cells_of,
                std::vector<Row>* rows) {
  const auto add = [](const Row& cells, Row* row) {
    row->insert(row->end() - 1, cells.begin(), cells.end());
  };
  add(names, &rows->front());
  for (std::size_t i = 0; i < jobs.size(); ++i) add(cells_of(jobs[i]), &(*rows)[i + 1]);
}

std::vector<Row> JobRows(const ClusterView& view) {
  std::vector<Row> rows{{"NAMESPACE", "NAME", "STATE", "STEP", "READY", "STAGES", "PREEMPTIONS",
                         "FAILURES", "CHECKPOINT", "AGE"}};
  for (const objects::JobView& job : view.jobs) rows.push_back(RowOf(job, view.now));
  const bool priced = std::ranges::any_of(
      view.jobs, [](const objects::JobView& job) { return job.status.cost != api::CostStatus(); });
  if (priced) {
    AddColumns(
        {"SPENT", "$/HOUR"}, view.jobs,
        [](const objects::JobView& job) { return CostCells(job.status.cost); }, &rows);
  }
  const bool spread = std::ranges::any_of(
      view.jobs, [](const objects::JobView& job) { return !job.status.readyByCluster.empty(); });
  if (spread) {
    AddColumns(
        {"CLUSTERS"}, view.jobs,
        [](const objects::JobView& job) {
          const std::string& words = job.status.readyByCluster;
          return Row{words.empty() ? "-" : words};
        },
        &rows);
  }
  if (view.progress.empty()) return rows;
  constexpr std::ptrdiff_t kAfterStep = 4;
  const Row names{"LOSS", "TOKENS/S", "LEFT"};
  rows[0].insert(rows[0].begin() + kAfterStep, names.begin(), names.end());
  for (std::size_t i = 0; i < view.jobs.size(); ++i) {
    const auto known = view.progress.find(view.jobs[i].uid);
    const Row cells = ProgressCells(known == view.progress.end() ? Progress() : known->second);
    rows[i + 1].insert(rows[i + 1].begin() + kAfterStep, cells.begin(), cells.end());
  }
  return rows;
}

std::vector<Row> ConditionRows(const api::SwarmJobStatus& status, api::WallTime now) {
  std::vector<Row> rows{{"CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"}};
  for (const api::Condition& condition : status.conditions) {
    rows.push_back({condition.type, std::string(NameOf(condition.status)),
                    Ago(now, condition.lastTransitionTime), condition.reason, condition.message});
  }
  return rows;
}

/// The job's own cluster has no state: who reads this has reached it.
std::vector<Row> ClusterRows(const api::SwarmJobStatus& status, api::WallTime now) {
  std::vector<Row> rows{{"CLUSTER", "READY", "STATE", "SINCE"}};
  std::uint64_t ready = status.readyReplicas, replicas = status.replicas;
  for (const api::ClusterStatus& each : status.clusters) {
    rows.push_back({each.name,
                    std::to_string(each.readyReplicas) + "/" + std::to_string(each.replicas),
                    std::string(NameOf(each.state)), each.since ? Ago(now, *each.since) : "-"});
    ready -= std::min(ready, each.readyReplicas);
    replicas -= std::min(replicas, each.replicas);
  }
  rows.insert(rows.begin() + 1,
              {"home", std::to_string(ready) + "/" + std::to_string(replicas), "-", "-"});
  return rows;
}

std::vector<Row> TrafficRows(const api::SwarmJobStatus& status) {
  std::vector<Row> rows{{"BETWEEN", "GB", "COST"}};
  constexpr double kGiga = 1e9;
  for (const api::TrafficStatus& pair : status.traffic) {
    std::string regions;
    for (const std::string& region : pair.between) {
      regions += (regions.empty() ? "" : " and ") + region;
    }
    rows.push_back({regions, Format("%.3f", static_cast<double>(pair.bytes) / kGiga),
                    pair.dollars > 0 ? DollarText(pair.dollars) : "-"});
  }
  return rows;
}

/// Machines without Kubernetes, which have no pods.
std::vector<Row> MachineRows(const objects::JobView& job, api::WallTime now) {
  std::vector<Row> rows{{"MACHINE", "POOL", "TOKEN", "CERTIFICATE"}};
  for (const api::MachineStatus& machine : job.status.machines) {
    const std::chrono::duration<double> left = machine.certificateEnds - now;
    rows.push_back({names::PodName(job.name, names::PodRole::kWorker, machine.ordinal),
                    machine.pool, machine.token,
                    left.count() > 0 ? "for " + ShortTime(left.count()) : "has ended"});
  }
  return rows;
}

std::vector<Row> PodRows(const ClusterView& view) {
  std::vector<Row> rows{{"POD", "POOL", "STATE", "AGE", "NODE"}};
  for (const plan::ObservedPod& pod : view.pods) {
    rows.push_back({pod.name, pod.pool.empty() ? "-" : pod.pool, PhaseOf(pod),
                    Ago(view.now, pod.created), pod.node.empty() ? "-" : pod.node});
  }
  return rows;
}

void Append(const std::vector<Row>& rows, std::vector<std::string>* lines) {
  if (!lines->empty()) lines->push_back("");
  for (std::string& line : RenderTable(rows)) lines->push_back(std::move(line));
}

}  // namespace

std::vector<std::string> RenderTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> RenderCluster(const ClusterView& view, std::size_t width) {
  std::vector<std::string> lines;
  Append(JobRows(view), &lines);
  if (view.details) {
    const api::SwarmJobStatus& status = view.jobs.front().status;
    Append(ConditionRows(status, view.now), &lines);
    if (!status.clusters.empty()) Append(ClusterRows(status, view.now), &lines);
    if (!status.traffic.empty()) Append(TrafficRows(status), &lines);
    Append(PodRows(view), &lines);
    if (!status.machines.empty()) Append(MachineRows(view.jobs.front(), view.now), &lines);
  }
  for (std::string& line : lines) line.resize(std::min(line.size(), width));
  return lines;
}

}  // namespace swarm::ctl
