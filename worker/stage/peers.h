// The other workers of the job, as the roster lists them, and those that were evicted. Not
// thread-safe.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "worker/protocol/roster.h"

namespace swarm::stage {

class Peers {
 public:
  /// Takes over a roster. Returns the members of the previous roster that are not in it.
  std::vector<protocol::WorkerId> Replace(const protocol::Roster& roster);
  /// Takes over what is different in the next roster.
  void Change(const protocol::RosterChange& change) { protocol::Apply(change, &roster_); }
  const protocol::Roster& roster() const { return roster_; }
  /// Null: not in the roster.
  const protocol::Member* Find(const protocol::WorkerId& id) const {
    return protocol::FindMember(roster_, id);
  }
  /// Empty for a worker that is not in the roster.
  std::string RegionOf(const protocol::WorkerId& id) const;
  /// The members of `stage` except for `self`; before the first roster, those among `donors`.
  std::vector<protocol::WorkerId> ReplicasOf(protocol::StageIndex stage,
                                             const protocol::WorkerId& self,
                                             const std::vector<protocol::Member>& donors) const;

  /// Nothing is sent to an evicted peer until it is readmitted as a new incarnation.
  void Evict(const protocol::WorkerId& id) { evicted_.insert(id); }
  /// Returns whether the worker was evicted until now.
  bool Readmit(const protocol::WorkerId& id) { return evicted_.erase(id) > 0; }
  bool IsEvicted(const protocol::WorkerId& id) const { return evicted_.contains(id); }

 private:
  protocol::Roster roster_;
  std::set<protocol::WorkerId> evicted_;
};

}  // namespace swarm::stage
