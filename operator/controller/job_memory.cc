#include "operator/controller/job_memory.h"

namespace swarm::controller {

std::optional<JobMemory::RenewalTime> JobMemory::NextRenewal(RenewalTime now) const {
  std::optional<RenewalTime> next;
  const auto take = [&](RenewalTime time) {
    if (time > now && (!next || time < *next)) next = time;
  };
  if (renew_at) take(*renew_at);
  for (const auto& [number, time] : identities) take(time);
  return next;
}

std::shared_ptr<JobMemory> JobMemories::Of(const kube::ObjectName& name, const std::string& uid) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[name];
  if (!entry.memory || entry.uid != uid) entry = {uid, std::make_shared<JobMemory>()};
  return entry.memory;
}

std::string JobMemories::Forget(const kube::ObjectName& name) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return "";
  std::string uid = std::move(found->second.uid);
  entries_.erase(found);
  return uid;
}

}  // namespace swarm::controller
