// The job as its users see it.
#pragma once

#include <string>

#include "worker/protocol/coordinator/directions.h"
#include "worker/protocol/coordinator/membership/evictions.h"
#include "worker/protocol/coordinator/membership/loading.h"
#include "worker/protocol/coordinator/membership/rebalancing.h"
#include "worker/protocol/coordinator/step/checkpoints.h"
#include "worker/protocol/coordinator/step/commits.h"
#include "worker/protocol/coordinator/step/validation.h"
#include "worker/protocol/coordinator/taking_over.h"

namespace swarm::protocol {

/// The parts of a coordinator that its status is made of.
struct JobParts {
  const Job& job;
  const Members& members;
  const Router& router;
  const Loading& loading;
  const TakingOver& taking_over;
  const Commits& commits;
  const Validation& validation;
  const Checkpoints& checkpoints;
  const Rebalancing& rebalancing;
  const Evictions& evictions;
  const Directions& directions;
};

JobState StateOf(const Job& job);

/// What the job cannot go on without, for people; empty if it goes on.
std::string DescribeWait(const JobParts& parts);

/// Everything but what heartbeats tell.
JobStatus DescribeJob(const JobParts& parts);

}  // namespace swarm::protocol
