// What the job's trainer says, as far as the operator may believe it. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "operator/plan/observed.h"

namespace swarm::plan {

/// The greatest age of a trainer's status that proves that a worker lives.
inline constexpr std::int64_t kViewSeconds = 15;

/// The trainer's status. Null: it is older than `age` seconds, or it is not from the trainer of the
/// current term.
const protocol::JobStatus* FreshView(const Observed& observed, std::int64_t age);

/// A worker as the trainer lists it.
struct ListedWorker {
  std::uint64_t stage = 0;
  const protocol::StageStatus::Worker* worker = nullptr;
};

/// What the trainer says about the workers of the pod. Empty: the trainer lists none of them.
std::vector<ListedWorker> ListWorkers(const protocol::JobStatus& view, const ObservedPod& pod);

}  // namespace swarm::plan
