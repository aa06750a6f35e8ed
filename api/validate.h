// What the fields of a manifest must satisfy, alone and together. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/field_error.h"
#include "api/swarmjob.h"

namespace swarm::api {

/// Everything that is wrong with a job whose defaults are filled in, as a user wrote it: model.uri
/// and model.config exclude each other. Empty: the job can be run.
std::vector<FieldError> Validate(const SwarmJob& job);

/// What is wrong with a job that Validate allows, where trainer and workers are pods: folders that
/// each of them would look for in its own pod, and no place for checkpoints, without the last of
/// which a job does not succeed.
std::vector<FieldError> ValidateForCluster(const SwarmJob& job);

/// The part of Validate about the model alone, for a config.json that came from a folder. `path`
/// begins the paths of the errors.
std::vector<FieldError> ValidateLlamaConfig(const LlamaConfig& config, const std::string& path);

/// The part of Validate about a job and its model together (sequence length, stages, vocabulary).
/// For a job with model.uri: to be called with `job.spec.model.config` taken from the folder.
std::vector<FieldError> ValidateFit(const SwarmJob& job);

}  // namespace swarm::api
