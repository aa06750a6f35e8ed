#include "operator/controller/seen_nodes.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "operator/objects/read.h"

namespace swarm::controller {

std::shared_ptr<const plan::ObservedNode> SeenNodes::Find(const std::string& name) const {
  const std::optional<kube::PackedObject> packed = store_.GetPacked({"", name});
  if (!packed) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto before = known_.find(name);
  if (before != known_.end() && before->second.packed.identity() == packed->identity()) {
    return before->second.node;
  }
  auto node = std::make_shared<const plan::ObservedNode>(objects::ReadNode(*packed->Unpack()));
  known_.insert_or_assign(name, Known{*packed, node});
  if (known_.size() > store_.size()) ForgetGone();
  return node;
}

void SeenNodes::ForgetGone() const {
  std::erase_if(known_, [this](const auto& each) { return !store_.GetPacked({"", each.first}); });
}

}  // namespace swarm::controller
