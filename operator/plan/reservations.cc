#include "operator/plan/reservations.h"

#include <set>

namespace swarm::plan {

std::vector<Reservation> Reservations::Look(const api::SwarmJobStatus& status,
                                            const std::vector<ObservedPod>& pods,
                                            const std::vector<Creation>& creations, WallTime now) {
  std::set<Number> given;
  for (const std::uint64_t ordinal : status.openWorkers) given.emplace(PodRole::kWorker, ordinal);
  if (status.trainer.term > 0) given.emplace(PodRole::kTrainer, status.trainer.term);
  std::erase_if(known_, [&](const auto& each) { return !given.contains(each.first); });
  for (const Number& number : given) known_.try_emplace(number, Known{.since = now});

  const auto claim = [&](PodRole role, std::uint64_t number) {
    const auto found = known_.find({role, number});
    if (found != known_.end()) found->second.ours = true;
  };
  for (const ObservedPod& pod : pods) claim(pod.role, pod.number);
  for (const Creation& creation : creations) claim(creation.role, creation.number);

  std::vector<Reservation> unseen;
  for (const auto& [number, known] : known_) {
    if (!known.ours) unseen.push_back({number.first, number.second, known.since});
  }
  return unseen;
}

}  // namespace swarm::plan
