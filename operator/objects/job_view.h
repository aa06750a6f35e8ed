// A SwarmJob object as the operator sees it: the manifest in typed form, its status, and the
// metadata.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/format/field_error.h"
#include "api/status.h"
#include "api/swarmjob.h"

namespace swarm::objects {

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
  /// With all defaults. Not valid if there are errors.
  api::SwarmJob job;
  /// All errors of the manifest.
  std::vector<api::FieldError> errors;
  api::SwarmJobStatus status;

  bool operator==(const JobView&) const = default;
};

}  // namespace swarm::objects
