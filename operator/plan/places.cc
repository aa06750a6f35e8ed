#include "operator/plan/places.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "operator/plan/observed_workers.h"

namespace swarm::plan {
namespace {

using api::ClusterStatus;
using api::PoolWorkers;

struct Place {
  std::string cluster;
  std::string pool;
};

/// Where the status says that workers are, apart from those in the job's own cluster.
std::map<std::uint64_t, Place> PlacesIn(const std::vector<ClusterStatus>& clusters) {
  std::map<std::uint64_t, Place> places;
  for (const ClusterStatus& cluster : clusters) {
    if (!cluster.workers) continue;
    for (const PoolWorkers& workers : *cluster.workers) {
      for (const std::uint64_t ordinal : workers.openWorkers) {
        places[ordinal] = {cluster.name, workers.pool};
      }
    }
  }
  return places;
}

/// Where the draft knows workers to be: what it sees or creates is newer than what was written.
std::map<std::uint64_t, Place> PlacesIn(const Draft& draft) {
  std::map<std::uint64_t, Place> places = PlacesIn(draft.seen.job.status.clusters);
  for (const ObservedPod& pod : draft.seen.pods) {
    if (pod.role == PodRole::kWorker) places[pod.number] = {pod.cluster, pod.pool};
  }
  std::map<std::string, std::string> cluster_of;
  for (const api::Pool& pool : draft.job.spec.workers.pools) cluster_of[pool.name] = pool.cluster;
  for (const Action& action : draft.plan.actions) {
    const auto* creation = std::get_if<CreateWorker>(&action);
    if (creation != nullptr) {
      places[creation->ordinal] = {cluster_of[creation->pool], creation->pool};
    }
  }
  return places;
}

}  // namespace

std::optional<std::string> PlaceOf(const api::SwarmJobStatus& status, std::uint64_t ordinal) {
  for (const ClusterStatus& cluster : status.clusters) {
    if (!cluster.workers) return std::nullopt;
  }
  const auto places = PlacesIn(status.clusters);
  const auto found = places.find(ordinal);
  return found == places.end() ? "" : found->second.cluster;
}

void AddUnseenPods(Observed* observed) {
  const api::SwarmJobStatus& status = observed->job.status;
  std::set<std::uint64_t> seen;
  for (const ObservedPod& pod : observed->pods) {
    if (pod.role == PodRole::kWorker) seen.insert(pod.number);
  }
  for (const auto& [ordinal, place] : PlacesIn(status.clusters)) {
    const auto cluster = observed->clusters.find(place.cluster);
    const bool away = cluster != observed->clusters.end() && !cluster->second.reachable;
    const bool open = std::ranges::binary_search(status.openWorkers, ordinal);
    if (!away || !open || seen.contains(ordinal)) continue;
    ObservedPod pod{.unseen = true, .number = ordinal, .pool = place.pool};
    pod.name = names::PodName(observed->job.name, pod.role, ordinal);
    pod.cluster = place.cluster;
    pod.workers = PodSize(*observed, place.pool);
    pod.created = pod.waiting_since = cluster->second.since;
    pod.phase = PodPhase::kRunning;
    pod.node = place.cluster + "/";  // it had one, as far as is known
    observed->pods.push_back(std::move(pod));
  }
}

void RecordPlaces(Draft* draft) {
  std::map<std::string, std::map<std::string, std::vector<std::uint64_t>>> open;
  const auto places = PlacesIn(*draft);
  for (const std::uint64_t ordinal : draft->status().openWorkers) {
    const auto place = places.find(ordinal);
    if (place != places.end()) open[place->second.cluster][place->second.pool].push_back(ordinal);
  }
  for (ClusterStatus& cluster : draft->status().clusters) {
    cluster.workers.emplace();
    for (auto& [pool, ordinals] : open[cluster.name]) {
      cluster.workers->push_back({pool, std::move(ordinals)});
    }
  }
}

}  // namespace swarm::plan
