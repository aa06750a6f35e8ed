// What the page of all jobs shows of each of them. Pure.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/format/wall_time.h"
#include "operator/objects/job_view.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::jobs_page {

/// An object that is no job as the operator understands it.
struct UnreadJob {
  std::string ns;
  std::string name;
  std::string why;
};

struct JobsView {
  std::vector<objects::JobView> jobs;
  std::vector<UnreadJob> unread;
  /// By the uid of a job, what its trainer says now. Without it the object's status counts, of
  /// which the progress is up to a minute older.
  std::map<std::string, protocol::JobStatus> told;
  api::WallTime now{};
  bool opens = false;  ///< the page leads to the page of each job (JobsPageOptions::open)
};

/// Adds a SwarmJob as the API server has it.
void AddJob(const nlohmann::json& object, JobsView* view);

/// JSON for the page: {"jobs": [...]}, sorted by namespace and name. What is not known is null.
std::string ToJson(const JobsView& view);

}  // namespace swarm::jobs_page
