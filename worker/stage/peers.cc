#include "worker/stage/peers.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace swarm::stage {

using protocol::Member;
using protocol::WorkerId;

std::vector<WorkerId> Peers::Replace(const protocol::Roster& roster) {
  const std::set<WorkerId> before = std::exchange(members_, {});
  for (const Member& member : roster.members) members_.insert(member.id);
  std::vector<WorkerId> gone;
  std::ranges::set_difference(before, members_, std::back_inserter(gone));
  return gone;
}

void Peers::Change(const protocol::RosterChange& change) {
  for (const WorkerId& id : change.gone) members_.erase(id);
  for (const Member& member : change.came) members_.insert(member.id);
}

}  // namespace swarm::stage
