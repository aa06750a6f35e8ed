// The pods of a job as decisions see them. A pod is read once, however often its job is looked at.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "operator/kube/object/object.h"
#include "operator/plan/observed.h"

namespace swarm::controller {

/// What is read of a pod.
struct SeenPod {
  plan::ObservedPod pod;   ///< as objects::ReadPod
  std::string controller;  ///< UID of the owner that controls it; empty: none does
  std::string ip;          ///< empty: it has none yet
};

/// Null: the labels are not those of a pod of a SwarmJob, or it has no name or UID.
std::shared_ptr<const SeenPod> SeePod(const nlohmann::json& object);

/// Not thread-safe.
class SeenPods {
 public:
  /// These pods in their order, without those that SeePod does not know. Forgets all others.
  std::vector<std::shared_ptr<const SeenPod>> Read(const std::vector<kube::PackedObject>& pods);

 private:
  struct Known {
    kube::PackedObject packed;  // so that no other object gets its identity
    std::shared_ptr<const SeenPod> seen;
  };
  std::unordered_map<const void*, Known> known_;  // by identity
};

}  // namespace swarm::controller
