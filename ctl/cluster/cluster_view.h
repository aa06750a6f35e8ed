// Renders the SwarmJobs of a cluster as lines of text. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "api/format/wall_time.h"
#include "ctl/cluster/progress.h"
#include "operator/objects/job_view.h"
#include "operator/plan/observed.h"

namespace swarm::ctl {

struct ClusterView {
  std::vector<objects::JobView> jobs;
  std::map<std::string, Progress> progress;  ///< of jobs that train, by uid
  std::vector<plan::ObservedPod> pods;       ///< of the job, with `details`
  bool details = false;                      ///< `jobs` has one job; show its pods and conditions
  api::WallTime now{};
};

/// A table with a row for each job: state, progress, ready and wanted workers of each stage,
/// recoveries. Loss, tokens per second and the time left have columns if a trainer has told them.
/// So have the ready workers of each cluster, if a job has pools in several. With details also
/// conditions, these clusters, and pods. Lines have no newlines and at most `width` columns.
std::vector<std::string> RenderCluster(const ClusterView& view, std::size_t width);

/// Aligns columns with two blanks between them; does not pad the last one.
std::vector<std::string> RenderTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace swarm::ctl
