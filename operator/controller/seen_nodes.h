// The nodes of a cluster as decisions see them. A node is read once until it changes, however many
// jobs have pods on it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "operator/kube/watch/store.h"
#include "operator/plan/observed.h"

namespace swarm::controller {

/// Thread-safe.
class SeenNodes {
 public:
  /// `store` must outlive this.
  explicit SeenNodes(const kube::Store& store) : store_(store) {}

  /// As objects::ReadNode; null: the store has no such node.
  std::shared_ptr<const plan::ObservedNode> Find(const std::string& name) const;

 private:
  struct Known {
    kube::PackedObject packed;  // so that no other object gets its identity
    std::shared_ptr<const plan::ObservedNode> node;
  };
  void ForgetGone() const;

  const kube::Store& store_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, Known> known_;  // guarded; no more than the store has
};

}  // namespace swarm::controller
