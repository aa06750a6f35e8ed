#include "worker/protocol/replica/standing.h"

#include <algorithm>
#include <utility>

#include "worker/protocol/roster.h"

namespace swarm::protocol {

Standing::Standing(ReplicaOptions replica_options)
    : options(std::move(replica_options)),
      promised(options.term),
      floor(options.floor),
      version(options.version) {}

Version Standing::OldestVersion() const {
  const bool keeps_previous = options.keeps_previous_version && version.value > 0;
  return Version(keeps_previous ? version.value - 1 : version.value);
}

bool Standing::Promise(Term term) {
  if (options.rules.keep_term_promise && term < promised) return false;
  promised = std::max(promised, term);
  return true;
}

std::string_view Standing::WhyRefuseControl(Term term, Generation generation) {
  if (!Promise(term)) return "term";
  return IsOfGeneration(generation) ? std::string_view() : "generation";
}

bool Standing::Adopt(const Roster& next) {
  const WorkerId& self = options.self.id;
  if (FindMember(roster, self) != nullptr && FindMember(next, self) == nullptr) return false;
  for (const Member& member : roster.members) evicted.insert(member.id);
  for (const Member& member : next.members) evicted.erase(member.id);
  roster = next;
  return true;
}

bool Standing::Adopt(const RosterChange& change) {
  if (std::ranges::binary_search(change.gone, options.self.id)) return false;
  evicted.insert(change.gone.begin(), change.gone.end());
  for (const Member& member : change.came) evicted.erase(member.id);
  Apply(change, &roster);
  return true;
}

}  // namespace swarm::protocol
