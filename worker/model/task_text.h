// What all kinds of stages say of tasks that they refuse, in the same words.
#pragma once

#include <string>

#include "worker/model/stage.h"

namespace swarm::model {

/// "microbatch 3 of step 5 at stage 1".
std::string TaskText(const TaskKey& key);
/// kNotFound: the weights of `version` are not held.
Status NotHeld(Version version, Version newest);
/// Errors: kInvalidArgument (nothing to predict in the microbatch of a forward).
Status CheckPredicts(const TokenBatch& tokens);
/// Errors: kInvalidArgument (more ids or fewer than the sequences have).
Status CheckSize(const TokenBatch& tokens);

}  // namespace swarm::model
