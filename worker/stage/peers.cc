#include "worker/stage/peers.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

namespace swarm::stage {

using protocol::Member;
using protocol::WorkerId;

std::vector<WorkerId> Peers::Replace(const protocol::Roster& roster) {
  const auto before = std::exchange(members_, {});
  for (const Member& member : roster.members) members_[member.id] = member.region;
  std::vector<WorkerId> gone;
  std::ranges::set_difference(before | std::views::keys, members_ | std::views::keys,
                              std::back_inserter(gone));
  return gone;
}

void Peers::Change(const protocol::RosterChange& change) {
  for (const WorkerId& id : change.gone) members_.erase(id);
  for (const Member& member : change.came) members_[member.id] = member.region;
}

std::string Peers::RegionOf(const WorkerId& id) const {
  const auto member = members_.find(id);
  return member == members_.end() ? "" : member->second;
}

}  // namespace swarm::stage
