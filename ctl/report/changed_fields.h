// The fields of a job that its writer had to write: all others follow from them. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/swarmjob.h"

namespace swarm::ctl {

/// A field below spec, with its value as JSON.
struct JobField {
  std::string path;  ///< training.maxSteps
  std::string value;
  bool operator==(const JobField&) const = default;
};

/// A field is among them if the manifest without it is another job, or none. Lists count as one
/// field.
std::vector<JobField> ChangedFields(const api::SwarmJob& job);

/// All fields below spec.
std::vector<JobField> AllFields(const api::SwarmJob& job);

}  // namespace swarm::ctl
