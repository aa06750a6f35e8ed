#include "operator/plan/clusters.h"

#include <algorithm>
#include <set>
#include <vector>

#include "api/format/enum_names.h"
#include "operator/names/names.h"
#include "operator/plan/report.h"

namespace swarm::plan {
namespace {

using api::ClusterState;
using api::ClusterStatus;
using api::ConditionStatus;
using api::ConditionType;
using api::Reason;

/// How the operator decides about a job.
enum class Sight {
  kClear,
  kBlind,  ///< it does not know which pods exist, and decides nothing
};

/// A job that is over has no use for a cluster in which it has no pods.
std::set<std::string> Concerned(const Draft& draft) {
  std::set<std::string> names;
  for (const auto& [name, cluster] : draft.seen.clusters) {
    const bool has_pods =
        std::ranges::find(draft.seen.pods, name, &ObservedPod::cluster) != draft.seen.pods.end();
    if (!draft.finished() || has_pods) names.insert(name);
  }
  return names;
}

/// "the job's workers there, 1 of 2 ready, go on": as the trainer says, or as last heard.
std::string WhatGoesOn(const ClusterStatus& cluster) {
  if (cluster.replicas == 0) return "the job has no workers there";
  if (cluster.readyReplicas == 0) {
    return "of the job's workers there, " + std::to_string(cluster.replicas) + ", none is ready";
  }
  return "the job's workers there, " + std::to_string(cluster.readyReplicas) + " of " +
         std::to_string(cluster.replicas) + " ready, go on";
}

std::string WhyAway(const ClusterStatus& cluster, Sight sight) {
  const std::string away =
      "cluster " + cluster.name + " has been away since " + api::FormatTime(*cluster.since) + ": ";
  if (sight == Sight::kBlind) {
    return away +
           "the operator has not seen its pods since it began, so it changes nothing of the job;"
           " pods and training go on. To go on without it, take its pools out of the manifest";
  }
  return away + WhatGoesOn(cluster) +
         "; until it is back no pod is made or removed there, and pools elsewhere with room"
         " replace what the trainer does not hear";
}

/// Takes over a change that has lasted, and tells it.
void Judge(const ObservedCluster& seen, Sight sight, ClusterStatus* cluster, Draft* draft) {
  const ClusterState now = seen.reachable ? ClusterState::kConnected : ClusterState::kAway;
  if (cluster->state == now) return;
  const bool comes_first = seen.reachable && cluster->state == ClusterState::kExpected;
  if (!comes_first && draft->now() - seen.since < kClusterGrace) {
    return draft->LookAgain(seen.since + kClusterGrace);
  }
  const bool returns = cluster->state == ClusterState::kAway;
  cluster->state = now;
  cluster->since = seen.since;
  if (now == ClusterState::kAway) draft->Warn(Reason::kClusterAway, WhyAway(*cluster, sight));
  if (returns) draft->Tell(Reason::kClusterReturned, "cluster " + cluster->name + " is connected");
}

void SetCondition(Sight sight, Draft* draft) {
  const std::vector<ClusterStatus>& clusters = draft->status().clusters;
  std::string away, expected;
  for (const ClusterStatus& cluster : clusters) {
    if (cluster.state == ClusterState::kAway) {
      away += (away.empty() ? "" : ". ") + WhyAway(cluster, sight);
    } else if (cluster.state == ClusterState::kExpected) {
      expected += (expected.empty() ? "" : ", ") + cluster.name;
    }
  }
  const auto set = [draft](ConditionStatus value, Reason reason, std::string message) {
    draft->Set(ConditionType::kClustersConnected, value, reason, std::move(message));
  };
  if (!away.empty()) return set(ConditionStatus::kFalse, Reason::kClusterAway, std::move(away));
  if (!expected.empty()) {
    return set(ConditionStatus::kUnknown, Reason::kClusterExpected,
               "the satellite has not come yet: cluster " + expected);
  }
  set(ConditionStatus::kTrue, Reason::kEveryClusterConnected,
      "every cluster in which the job has pools is connected");
}

std::string Share(const std::string& name, const WorkerCount& count) {
  return name + " " + std::to_string(count.ready) + "/" + std::to_string(count.replicas);
}

/// "home 2/2, west 1/2 (away)".
std::string InWords(const WorkerCount& home, const std::vector<ClusterStatus>& clusters) {
  if (clusters.empty()) return "";
  std::string words = Share(names::kHomeCluster, home);
  for (const ClusterStatus& each : clusters) {
    words += ", " + Share(each.name, {each.replicas, each.readyReplicas});
    if (each.state == ClusterState::kAway) words += " (away)";
    if (each.state == ClusterState::kExpected) words += " (expected)";
  }
  return words;
}

void Report(const std::map<std::string, WorkerCount>& counts, Sight sight, Draft* draft) {
  api::SwarmJobStatus& status = draft->status();
  const auto count_of = [&](const std::string& cluster) {
    const auto found = counts.find(cluster);
    return found == counts.end() ? WorkerCount() : found->second;
  };
  std::vector<ClusterStatus> clusters;
  for (const std::string& name : Concerned(*draft)) {
    const auto before = std::ranges::find(status.clusters, name, &ClusterStatus::name);
    ClusterStatus& cluster = clusters.emplace_back(
        before == status.clusters.end() ? ClusterStatus{.name = name} : *before);
    cluster.replicas = count_of(name).replicas;
    cluster.readyReplicas = count_of(name).ready;
    Judge(draft->seen.clusters.at(name), sight, &cluster, draft);
  }
  status.clusters = std::move(clusters);
  status.readyByCluster = InWords(count_of(""), status.clusters);
  if (!status.clusters.empty()) return SetCondition(sight, draft);
  std::erase_if(status.conditions, [](const api::Condition& condition) {
    return condition.type == NameOf(ConditionType::kClustersConnected);
  });
}

}  // namespace

void ReportClusters(const std::map<std::string, WorkerCount>& counts, Draft* draft) {
  Report(counts, Sight::kClear, draft);
}

Plan WaitForClusters(const Observed& observed) {
  Draft draft(observed);
  const api::SwarmJobStatus& before = observed.job.status;
  std::map<std::string, WorkerCount> counts{{"", {before.replicas, before.readyReplicas}}};
  for (const ClusterStatus& each : before.clusters) {
    counts[each.name] = {each.replicas, each.readyReplicas};
    counts[""].replicas -= std::min(each.replicas, counts[""].replicas);
    counts[""].ready -= std::min(each.readyReplicas, counts[""].ready);
  }
  Report(counts, Sight::kBlind, &draft);
  DecideWrite(observed, &draft.plan);
  return std::move(draft.plan);
}

}  // namespace swarm::plan
