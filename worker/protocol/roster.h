// A roster and its changes (docs/protocol.md, rule 15). Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "worker/protocol/messages/control.h"

namespace swarm::protocol {

/// Its pod; a worker without one is a pod of its own, by its id.
inline const std::string& PodOf(const Member& member) {
  return member.pod.empty() ? member.id.value : member.pod;
}

/// Whether it has an address that others dial: not that of the relay.
bool CanBeDialled(const Member& member);

/// Whether others that nobody can dial reach it through the relay, and it them.
bool IsRelayed(const Member& member);

/// Of two neighbours one dials, and the connection serves both directions: the one that nobody can
/// dial; else the one with the smaller id.
bool IsDialler(const Member& self, const Member& peer);

/// The addresses of `member` in the order in which a worker of `cluster` tries them. One of the
/// same cluster is tried at its own address first. One of another cluster is tried by its gateway
/// first, if it has one: its own address may be that of another pod here.
std::vector<Address> WaysTo(const Member& member, const std::string& cluster);

/// Null: not in the roster. O(log n).
const Member* FindMember(const Roster& roster, const WorkerId& id);

/// The members of `stage` except for `self`. A worker that joins may have no roster yet: then those
/// among its donors.
std::vector<WorkerId> ReplicasOf(const Roster& roster, StageIndex stage, const WorkerId& self,
                                 const std::vector<Member>& donors);

/// Of `ids`, those that are in another region than `region`; none, if all are. Who is not among the
/// members is in a region without a name.
std::set<WorkerId> FarFrom(const std::string& region, const std::vector<WorkerId>& ids,
                           const std::vector<Member>& members);

/// Makes the roster that of the change's epoch. Requires that it is that of the epoch before.
void Apply(const RosterChange& change, Roster* roster);

}  // namespace swarm::protocol
