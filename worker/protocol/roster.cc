#include "worker/protocol/roster.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace swarm::protocol {

bool CanBeDialled(const Member& member) {
  return std::ranges::any_of(member.addresses,
                             [](const Address& address) { return address.scope != kRelayScope; });
}

bool IsRelayed(const Member& member) { return !CanBeDialled(member) && !member.addresses.empty(); }

bool IsDialler(const Member& self, const Member& peer) {
  const bool is_called = CanBeDialled(self);
  return is_called == CanBeDialled(peer) ? self.id < peer.id : !is_called;
}

std::vector<Address> WaysTo(const Member& member, const std::string& cluster) {
  std::vector<Address> ways = member.addresses;
  const bool same = member.cluster == cluster;
  std::ranges::stable_partition(
      ways, [same](const Address& address) { return (address.scope == "cluster") == same; });
  return ways;
}

const Member* FindMember(const Roster& roster, const WorkerId& id) {
  const auto found = std::ranges::lower_bound(roster.members, id, {}, &Member::id);
  return found != roster.members.end() && found->id == id ? &*found : nullptr;
}

std::vector<WorkerId> ReplicasOf(const Roster& roster, StageIndex stage, const WorkerId& self,
                                 const std::vector<Member>& donors) {
  std::vector<WorkerId> replicas;
  for (const Member& member : roster.members.empty() ? donors : roster.members.elements()) {
    if (member.stage == stage && member.id != self) replicas.push_back(member.id);
  }
  return replicas;
}

std::set<WorkerId> FarFrom(const std::string& region, const std::vector<WorkerId>& ids,
                           const std::vector<Member>& members) {
  std::set<WorkerId> far(ids.begin(), ids.end());
  for (const Member& member : members) {
    if (member.region == region) far.erase(member.id);
  }
  return far.size() == ids.size() ? std::set<WorkerId>() : far;
}

void Apply(const RosterChange& change, Roster* roster) {
  roster->term = change.term;
  roster->generation = change.generation;
  roster->epoch = change.epoch;
  roster->adoptions = change.adoptions;
  std::vector<Member>& members = roster->members.Own();
  std::erase_if(members, [&](const Member& member) {
    return std::ranges::binary_search(change.gone, member.id);
  });
  const auto middle = static_cast<std::ptrdiff_t>(members.size());
  members.insert(members.end(), change.came.begin(), change.came.end());
  std::ranges::inplace_merge(members, members.begin() + middle, {}, &Member::id);
}

}  // namespace swarm::protocol
