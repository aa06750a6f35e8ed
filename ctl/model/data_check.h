// What `swarmctl validate` sees in the data of a job.
#pragma once

#include <vector>

#include "api/format/field_error.h"
#include "api/swarmjob.h"

namespace swarm::ctl {

/// Looks at the data that lie on this machine, not at those in buckets: whether there are files of
/// kinds that we read, and whether the first document of each can be read.
std::vector<api::FieldError> FindBadData(const api::SwarmJob& job);

}  // namespace swarm::ctl
