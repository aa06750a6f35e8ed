#include "worker/protocol/replica/retention.h"

namespace swarm::protocol {

void Retention::Keep(const TaskKey& key, const Forward& frame, bool gradient, std::uint64_t bytes,
                     Actions& actions) {
  Kept& kept = kept_[key];
  kept.frame = frame;
  (gradient ? kept.gradient_bytes : kept.output_bytes) = bytes;
  order_.emplace_back(key, gradient);
  bytes_ += bytes;
  while (bytes_ > bytes_max_) ReleaseOldest(actions);
}

void Retention::ReleaseOldest(Actions& actions) {
  const auto [key, gradient] = order_.front();
  order_.pop_front();
  const auto it = kept_.find(key);
  auto& size = gradient ? it->second.gradient_bytes : it->second.output_bytes;
  bytes_ -= *size;
  size.reset();
  if (!it->second.gradient_bytes && !it->second.output_bytes) kept_.erase(it);
  actions.push_back(action::ReleaseRetained{key, gradient});
}

const Forward* Retention::FindOutput(const TaskKey& key) const {
  const auto it = kept_.find(key);
  return it != kept_.end() && it->second.output_bytes ? &it->second.frame : nullptr;
}

const Forward* Retention::FindGradient(const TaskKey& key) const {
  const auto it = kept_.find(key);
  return it != kept_.end() && it->second.gradient_bytes ? &it->second.frame : nullptr;
}

void Retention::Forget(Step step) {
  std::erase_if(order_, [&](const auto& entry) { return entry.first.step <= step; });
  std::erase_if(kept_, [&](const auto& entry) {
    if (entry.first.step > step) return false;
    bytes_ -= entry.second.output_bytes.value_or(0);
    bytes_ -= entry.second.gradient_bytes.value_or(0);
    return true;
  });
}

}  // namespace swarm::protocol
