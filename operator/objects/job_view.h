// A SwarmJob object as the operator sees it: the manifest in typed form, its status, and the
// metadata.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/format/field_error.h"
#include "api/status.h"
#include "api/swarmjob.h"
#include "planner/search.h"

namespace swarm::objects {

/// Where the pods of a pod set go, beside what the manifest says.
struct Placement {
  std::map<std::string, std::string> node_selector;
  api::RawJson tolerations;  ///< a list, or empty
  bool operator==(const Placement&) const = default;
};

struct JobView {
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::uint64_t generation = 0;
  bool deleting = false;
  api::WallTime creation_time{};
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  /// With all defaults, and with the choice in it. Not valid if there are errors.
  api::SwarmJob job;
  /// Of a job with `pipeline.stages: Auto`: what the planner has chosen; or, as long as it has not,
  /// what it is to choose, and until then the job has the defaults.
  std::optional<api::PlanChoice> choice;
  std::optional<planner::Open> open;
  std::string trainer_part;    ///< a hash of what of the manifest a trainer's pod is made of
  bool replicas_open = false;  ///< the manifest leaves the number of workers open; `job` has one
  /// All errors of the manifest.
  std::vector<api::FieldError> errors;
  api::SwarmJobStatus status;
  std::map<std::string, Placement> placements;  ///< by the queue of the job; by pod set

  bool operator==(const JobView&) const = default;
};

}  // namespace swarm::objects
