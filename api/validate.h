// The rules for the fields of a manifest, alone and together. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/format/field_error.h"
#include "api/swarmjob.h"

namespace swarm::api {

/// All errors of a job whose defaults are filled in. The job is as the user wrote it: it has either
/// model.uri or model.config. Empty: the job can be run.
std::vector<FieldError> Validate(const SwarmJob& job);

/// Errors of a job that Validate accepts, if trainer and workers are pods. A path must not name a
/// folder of a single pod, and there must be a place for checkpoints: a job does not succeed before
/// it has written its last one.
std::vector<FieldError> ValidateForCluster(const SwarmJob& job);

/// The rules of Validate for the model alone, for a config.json from a folder. The paths of the
/// errors begin with `path`.
std::vector<FieldError> ValidateDecoderConfig(const DecoderConfig& config, const std::string& path);

/// The rules of Validate for a job and its model together (sequence length, stages, vocabulary).
/// For a job with model.uri, set `job.spec.model.config` from the folder before the call.
std::vector<FieldError> ValidateFit(const SwarmJob& job);

/// The rules of Validate for pipeline.residency and what it works with.
std::vector<FieldError> ValidateResidency(const Spec& spec);

}  // namespace swarm::api
