// The workers with which a worker may exchange data: the members of the last roster, and those that
// were evicted. It outlives replicas, as connections do. Not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "worker/protocol/messages/control.h"

namespace swarm::stage {

class Peers {
 public:
  /// Takes over a roster. Returns the members of the previous roster that are not in it.
  std::vector<protocol::WorkerId> Replace(const protocol::Roster& roster);
  /// Takes over what is different in the next roster.
  void Change(const protocol::RosterChange& change);
  /// How many the last roster has, with this worker.
  std::size_t members() const { return members_.size(); }
  bool IsMember(const protocol::WorkerId& id) const { return members_.contains(id); }
  /// Empty: it has none, or is no member.
  std::string RegionOf(const protocol::WorkerId& id) const;

  /// Nothing is sent to an evicted peer until it is readmitted as a new incarnation.
  void Evict(const protocol::WorkerId& id) { evicted_.insert(id); }
  /// Returns whether the worker was evicted until now.
  bool Readmit(const protocol::WorkerId& id) { return evicted_.erase(id) > 0; }
  bool IsEvicted(const protocol::WorkerId& id) const { return evicted_.contains(id); }

 private:
  std::map<protocol::WorkerId, std::string> members_;  // with their regions
  std::set<protocol::WorkerId> evicted_;
};

}  // namespace swarm::stage
