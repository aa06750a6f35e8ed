// The model that a manifest names, where it is a folder of this machine.
#pragma once

#include <vector>

#include "api/format/field_error.h"
#include "api/swarmjob.h"

namespace swarm::ctl {

/// Takes the config of the job's model from its folder, and checks what job and model are together;
/// does nothing for a model in a bucket, and for one that the manifest describes.
std::vector<api::FieldError> ReadLocalModel(api::SwarmJob* job);

/// The same for a command that needs the config: a model in a bucket is an error.
std::vector<api::FieldError> ReadKnownModel(api::SwarmJob* job);

}  // namespace swarm::ctl
