// The clusters other than the jobs' own in which their pods may be, as their satellites show them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "operator/controller/informers.h"
#include "operator/kube/client/client.h"
#include "worker/enrol/proof.h"

namespace swarm::controller {

/// One such cluster. Its caches stay as they were while it cannot be reached.
class Cluster {
 public:
  /// Whether requests have a way to it now. Thread-safe.
  using Reachable = std::function<bool()>;

  Cluster(std::string name, std::unique_ptr<kube::Client> client, Reachable reachable,
          const InformerOptions& options, Informers::Enqueue enqueue, kube::Timing& timing);

  const std::string& name() const { return name_; }
  kube::Client& client() { return *client_; }
  const Informers& informers() const { return informers_; }
  /// Whether requests have a way to it, and the caches have had their first lists.
  bool reachable() const { return reachable_() && informers_.synced(); }

 private:
  const std::string name_;
  const std::unique_ptr<kube::Client> client_;
  const Reachable reachable_;
  Informers informers_;  // last: its threads use the client
};

/// Since when clusters can be reached, or cannot. Pure: it knows what it is shown.
class ClusterSights {
 public:
  /// Shows whether a cluster can be reached at `now`. Returns when it was first shown so, without
  /// having been otherwise since. Times of a name do not go back.
  Timepoint See(const std::string& name, bool reachable, Timepoint now);

 private:
  struct Sight {
    bool reachable = false;
    Timepoint since{};
  };
  std::map<std::string, Sight> sights_;
};

/// How a cluster is.
struct ClusterLook {
  bool reachable = false;
  Timepoint since{};   ///< when a look first found it so
  Duration silence{};  ///< since its API server was last heard; never heard: since the first look
};

/// Where the pods of a cluster, maybe kHomeCluster, prove which ones they are, without their token
/// file. None: they cannot. Thread-safe.
using FindProofPlace = std::function<std::optional<enrol::ProofPlace>(const std::string& cluster)>;

/// host:port of gateways by cluster; empty: it has none. Thread-safe.
using ListGateways = std::function<std::map<std::string, std::string>()>;

/// Thread-safe. A cluster that has come stays as long as this.
class Clusters {
 public:
  /// From now on pods that are created prove themselves where `find` says. Null: nowhere.
  void ProveAt(FindProofPlace find);
  std::optional<enrol::ProofPlace> ProofPlaceOf(const std::string& cluster) const;
  /// From now on pods that are created know the gateways that `list` has. Null: none.
  void UseGateways(ListGateways list);
  std::map<std::string, std::string> Gateways() const;
  /// The first one of a name counts.
  void Add(std::unique_ptr<Cluster> cluster);
  /// Null: its satellite has not come since this operator began.
  Cluster* Find(const std::string& name) const;
  std::vector<Cluster*> All() const;
  /// Looks at a cluster, which may not have come, at `now`.
  ClusterLook Look(const std::string& name, Timepoint now) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Cluster>> clusters_;  // guarded; by name
  mutable ClusterSights sights_;                              // guarded; what looks have found
  FindProofPlace find_proof_place_;                           // guarded; null: there is none
  ListGateways list_gateways_;                                // guarded; null: there are none
};

}  // namespace swarm::controller
