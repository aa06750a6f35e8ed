// The operator's caches of jobs, pods and nodes of a cluster. When an object changes, the jobs that
// it concerns are enqueued.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "operator/controller/seen_nodes.h"
#include "operator/kube/watch/reflector.h"

namespace swarm::controller {

/// The indexes of the pods: by "ns/name" of the job, and by the name of the node.
inline constexpr std::size_t kPodsByJob = 0, kPodsByNode = 1;
std::vector<kube::IndexKey> PodIndexes();

struct InformerOptions {
  std::set<std::string> namespaces;  ///< empty: all
  bool nodes = true;                 ///< false: the operator may not read nodes
  /// Empty: the jobs' own cluster. Another one has no jobs, and what it has is localized
  /// (operator/objects/outpost.h).
  std::string cluster;
  /// After that it goes without the namespaces that cannot be read.
  Duration patience = std::chrono::seconds(60);
};

/// Owns a thread for each resource, and of jobs and pods for each namespace that is named.
class Informers {
 public:
  /// Called with the key ("ns/name") of a job that may need a reconcile. Called from several
  /// threads; must not block.
  using Enqueue = std::function<void(const std::string& key)>;

  Informers(kube::Client& client, const InformerOptions& options, Enqueue enqueue,
            kube::Timing& timing);

  void Start();
  /// Whether all has arrived.
  bool synced() const;
  /// Whether what is read about the jobs of a namespace has arrived.
  bool synced(const std::string& ns) const;
  /// Waits until all has arrived; where that takes longer than `patience`, until what is read about
  /// one of several namespaces has. Returns false when `stop` is requested.
  bool WaitUntilUsable(std::stop_token stop) const;
  /// Whether it would wait no longer.
  bool usable() const;

  const kube::Store& jobs() const { return *jobs_; }
  const kube::Store& pods() const { return *pods_; }
  /// Null: the operator may not read nodes.
  const SeenNodes* nodes() const { return seen_nodes_.get(); }

  /// Of each resource, for the metrics.
  struct Reading {
    std::string resource;
    std::uint64_t relists = 0;  ///< the first list, of each namespace, apart
    Duration silence{};         ///< of the namespace that was heard least lately
  };
  std::vector<Reading> Read() const;

 private:
  void OnPod(const kube::Change& change);
  void OnNode(const kube::Change& change);

  const Enqueue enqueue_;
  const std::set<std::string> namespaces_;  ///< one is "": all
  const Duration patience_;
  kube::Timing& timing_;
  std::atomic<Timepoint> began_{Timepoint()};
  const std::shared_ptr<kube::Store> jobs_, pods_, nodes_;
  const std::unique_ptr<const SeenNodes> seen_nodes_;
  std::vector<std::unique_ptr<kube::Reflector>> reflectors_;  // last: its threads call the others
};

}  // namespace swarm::controller
