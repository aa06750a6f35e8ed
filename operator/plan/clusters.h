// What a job's status says of the other clusters in which it has workers: which of them are
// connected, since when one is away, what goes on there and what does not.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "operator/plan/draft.h"

namespace swarm::plan {

/// A cluster that comes or goes is told when it has lasted this long. A shorter change is none.
inline constexpr std::chrono::seconds kClusterGrace{30};

/// Workers in one cluster, as the status counts replicas.
struct WorkerCount {
  std::uint64_t replicas = 0;
  std::uint64_t ready = 0;
};

/// Writes `status.clusters`, its words and the condition ClustersConnected, and tells an event
/// where a cluster has gone or returned. `counts`: by cluster, the job's own as "".
void ReportClusters(const std::map<std::string, WorkerCount>& counts, Draft* draft);

/// The plan for a job whose pods are not known before a cluster has come: says so, and changes no
/// object but the status. Requires: observed.job.job.
Plan WaitForClusters(const Observed& observed);

}  // namespace swarm::plan
