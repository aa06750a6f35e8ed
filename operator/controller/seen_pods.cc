#include "operator/controller/seen_pods.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "operator/objects/read.h"

namespace swarm::controller {

std::shared_ptr<const SeenPod> SeePod(const nlohmann::json& object) {
  auto pod = objects::ReadPod(object);
  if (!pod) return nullptr;
  return std::make_shared<const SeenPod>(
      SeenPod{*std::move(pod), kube::ControllerOf(object), kube::TextAt(object, "/status/podIP")});
}

std::vector<std::shared_ptr<const SeenPod>> SeenPods::Read(
    const std::vector<kube::PackedObject>& pods) {
  std::vector<std::shared_ptr<const SeenPod>> seen;
  seen.reserve(pods.size());
  std::unordered_map<const void*, Known> known;
  known.reserve(pods.size());
  for (const kube::PackedObject& packed : pods) {
    const auto before = known_.find(packed.identity());
    Known now = before != known_.end() ? before->second : Known{packed, SeePod(*packed.Unpack())};
    if (now.seen) seen.push_back(now.seen);
    known.emplace(packed.identity(), std::move(now));
  }
  known_ = std::move(known);
  return seen;
}

}  // namespace swarm::controller
