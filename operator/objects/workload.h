// The Workload of a job with a queue, as Kueue reads and writes it (kueue.x-k8s.io/v1beta2). Pure.
//
// Kueue removes a Workload's own finalizer only for the kinds that it knows, so the Workload of a
// SwarmJob has none: it goes with its job, and its quota is free a moment before the pods are gone.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "base/status.h"
#include "operator/objects/build.h"
#include "operator/objects/job_view.h"
#include "operator/plan/observed.h"
#include "operator/plan/plan.h"

namespace swarm::objects {

/// The queue that the job's label names; empty: it has none.
std::string QueueOf(const JobView& view);
/// The WorkloadPriorityClass that the job's label names; empty: it has none.
std::string QueuePriorityOf(const JobView& view);

/// Whether the job's label names a Workload that another made (ObservedQueue::prebuilt).
bool IsPrebuilt(const JobView& view);
std::string WorkloadNameOf(const JobView& view);

/// Asks for the trainer and for the workers of each pool: what counts for quota, and where the pods
/// can go. `priority`: the value of the job's WorkloadPriorityClass, if it has one.
///
/// Requires that `view.errors` is empty. Errors: those of the pods' builders.
Result<nlohmann::json> BuildWorkload(const JobView& view, const PodOptions& options,
                                     std::optional<std::int64_t> priority);

/// Makes a Workload without quota ask for what `wanted` asks for.
void UpdateWorkload(const nlohmann::json& wanted, nlohmann::json* workload);

/// A Workload as the API server sends it, which is not trusted: a field of the wrong type counts as
/// absent. `wanted` is what BuildWorkload makes now.
plan::ObservedWorkload ReadWorkload(const nlohmann::json& object, const nlohmann::json& wanted);

/// Writes the news about the job into the Workload's status.
void Tell(const plan::TellQueue& news, api::WallTime now, nlohmann::json* workload);

/// The ResourceFlavors that Kueue assigned to each pod set.
std::map<std::string, std::set<std::string>> FlavorsOf(const nlohmann::json& workload);
/// Adds what a ResourceFlavor says about its nodes.
void AddFlavor(const nlohmann::json& flavor, Placement* placement);

}  // namespace swarm::objects
