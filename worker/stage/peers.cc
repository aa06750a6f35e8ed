#include "worker/stage/peers.h"

#include <algorithm>

namespace swarm::stage {

using protocol::Member;
using protocol::WorkerId;

std::vector<WorkerId> Peers::Replace(const protocol::Roster& roster) {
  std::vector<WorkerId> evicted;
  for (const Member& member : roster_.members) {
    if (protocol::FindMember(roster, member.id) == nullptr) evicted.push_back(member.id);
  }
  roster_ = roster;
  return evicted;
}

std::string Peers::RegionOf(const WorkerId& id) const {
  const Member* member = Find(id);
  return member == nullptr ? "" : member->region;
}

std::vector<WorkerId> Peers::ReplicasOf(protocol::StageIndex stage, const WorkerId& self,
                                        const std::vector<Member>& donors) const {
  std::vector<WorkerId> replicas;
  for (const Member& member : roster_.members.empty() ? donors : roster_.members) {
    const bool known = std::find(replicas.begin(), replicas.end(), member.id) != replicas.end();
    if (member.stage == stage && member.id != self && !known) replicas.push_back(member.id);
  }
  return replicas;
}

}  // namespace swarm::stage
