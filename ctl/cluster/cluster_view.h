// What a person sees of the SwarmJobs of a cluster: values to lines of text. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "api/wall_time.h"
#include "operator/objects/job_view.h"
#include "operator/plan/observed.h"

namespace swarm::ctl {

struct ClusterView {
  std::vector<objects::JobView> jobs;
  std::vector<plan::ObservedPod> pods;  ///< of one job, if its details are wanted
  bool details = false;                 ///< `jobs` is one, and its pods and conditions are shown
  api::WallTime now{};
};

/// A table with a row for each job: state, progress, stages as ready/wanted, what it has met. With
/// details also its conditions and its pods. Lines without newlines, none longer than `width`
/// columns.
std::vector<std::string> RenderCluster(const ClusterView& view, std::size_t width);

/// Columns under each other, two blanks between them; the last one is not padded.
std::vector<std::string> RenderTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace swarm::ctl
