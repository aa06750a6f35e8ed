#include "operator/controller/clusters.h"

#include <algorithm>
#include <utility>

namespace swarm::controller {
namespace {

InformerOptions Of(const std::string& cluster, InformerOptions options) {
  options.cluster = cluster;
  return options;
}

}  // namespace

Cluster::Cluster(std::string name, std::unique_ptr<kube::Client> client, Reachable reachable,
                 const InformerOptions& options, Informers::Enqueue enqueue, kube::Timing& timing)
    : name_(std::move(name)),
      client_(std::move(client)),
      reachable_(std::move(reachable)),
      informers_(*client_, Of(name_, options), std::move(enqueue), timing) {
  informers_.Start();
}

void Clusters::Add(std::unique_ptr<Cluster> cluster) {
  const std::lock_guard lock(mutex_);
  const std::string name = cluster->name();
  clusters_.emplace(name, std::move(cluster));
}

void Clusters::ProveAt(FindProofPlace find) {
  const std::lock_guard lock(mutex_);
  find_proof_place_ = std::move(find);
}

std::optional<enrol::ProofPlace> Clusters::ProofPlaceOf(const std::string& cluster) const {
  const std::lock_guard lock(mutex_);
  return find_proof_place_ ? find_proof_place_(cluster) : std::nullopt;
}

void Clusters::UseGateways(ListGateways list) {
  const std::lock_guard lock(mutex_);
  list_gateways_ = std::move(list);
}

std::map<std::string, std::string> Clusters::Gateways() const {
  const std::lock_guard lock(mutex_);
  return list_gateways_ ? list_gateways_() : std::map<std::string, std::string>();
}

Cluster* Clusters::Find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = clusters_.find(name);
  return found == clusters_.end() ? nullptr : found->second.get();
}

Timepoint ClusterSights::See(const std::string& name, bool reachable, Timepoint now) {
  const auto [sight, is_new] = sights_.try_emplace(name, Sight{reachable, now});
  if (sight->second.reachable != reachable) sight->second = {reachable, now};
  return sight->second.since;
}

ClusterLook Clusters::Look(const std::string& name, Timepoint now) const {
  Cluster* const cluster = Find(name);
  ClusterLook look{.reachable = cluster != nullptr && cluster->reachable()};
  {
    const std::lock_guard lock(mutex_);
    look.since = sights_.See(name, look.reachable, now);
  }
  look.silence = now - look.since;
  if (cluster == nullptr) return look;
  const std::vector<Informers::Reading> caches = cluster->informers().Read();
  const auto heard_last = std::ranges::min_element(caches, {}, &Informers::Reading::silence);
  if (heard_last != caches.end()) look.silence = heard_last->silence;
  return look;
}

std::vector<Cluster*> Clusters::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<Cluster*> all;
  for (const auto& [name, cluster] : clusters_) all.push_back(cluster.get());
  return all;
}

}  // namespace swarm::controller
