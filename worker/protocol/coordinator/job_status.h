// The job as its users see it.
#pragma once

#include <string>

#include "worker/protocol/coordinator/directions.h"
#include "worker/protocol/coordinator/membership/evictions.h"
#include "worker/protocol/coordinator/membership/loading.h"
#include "worker/protocol/coordinator/membership/reachability.h"
#include "worker/protocol/coordinator/membership/rebalancing.h"
#include "worker/protocol/coordinator/step/checkpoints.h"
#include "worker/protocol/coordinator/step/commits.h"
#include "worker/protocol/coordinator/step/validation.h"
#include "worker/protocol/coordinator/taking_over.h"

namespace swarm::protocol {

/// The parts of a coordinator from which its status is made.
struct JobParts {
  const Job& job;
  const Members& members;
  const Reachability& reachability;
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

/// The workers or storage that the job waits for, for people; empty if it goes on.
std::string DescribeWait(const JobParts& parts);

/// Everything except the data of heartbeats.
JobStatus DescribeJob(const JobParts& parts);

}  // namespace swarm::protocol
