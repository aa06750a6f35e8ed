// What the planner chooses for a job with `pipeline.stages: Auto`. Pure.
#pragma once

#include "api/format/field_error.h"
#include "api/status.h"
#include "operator/objects/job_view.h"

namespace swarm::objects {

/// Chooses what `view.open`, which it requires, leaves open. The workers are the `machine` of their
/// pools, in the order of the pools; or where these have none, as many as there may be, of the
/// least memory that a pool's pods say. Error: the job fits in no way, with what would make it fit;
/// or what there is to say about its machines, so that a plan can be made.
api::Checked<api::PlanChoice> ChoosePlan(const JobView& view);

}  // namespace swarm::objects
