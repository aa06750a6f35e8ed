// The clusters other than the jobs' own in which their pods may be, as their satellites show them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "operator/controller/informers.h"
#include "operator/kube/client/client.h"

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

/// Thread-safe. A cluster that has come stays as long as this.
class Clusters {
 public:
  /// The first one of a name counts.
  void Add(std::unique_ptr<Cluster> cluster);
  /// Null: its satellite has not come since this operator began.
  Cluster* Find(const std::string& name) const;
  std::vector<Cluster*> All() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Cluster>> clusters_;  // guarded; by name
};

}  // namespace swarm::controller
