// Which replicas of a stage hold the optimizer's moments of which part, make its sum and its update
// (docs/protocol.md, rule 31). A part is one tensor of a group. Pure.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "worker/protocol/commit.h"
#include "worker/protocol/messages/control.h"

namespace swarm::protocol {

/// Chooses the holders of each part for the next step: two, or one where one replica is alone. The
/// parts that a replica holds are about as large as those of any other, and so are those that it is
/// the first holder of. At least one holder of a part holds it now, so that the other can get the
/// moments from it. Where nothing has come or gone, the holders are those of before; else few parts
/// get another holder, and those that only make all alike get it over some steps.
///
/// `sizes`: of the parts, above 0. `now`: who holds each, one at least. `replicas`: who may hold
/// parts, by id, one at least; another worker is chosen only where none of them holds the part now.
std::vector<PartHolders> ChooseHolders(const std::vector<std::uint64_t>& sizes,
                                       const std::vector<std::set<WorkerId>>& now,
                                       const std::vector<WorkerId>& replicas);

/// The digest of a sum, of those of its parts.
Digest CombineDigests(const std::vector<Digest>& parts);

/// The parts of which the two holders have reported different sums, or one has reported none.
std::vector<std::uint64_t> FindDifferentParts(const std::vector<PartHolders>& holders,
                                              const std::map<WorkerId, Reduced>& reports);

/// What the participants have reported together. Requires that no parts are different.
GroupReport CombineReports(GroupResult result, const std::vector<PartHolders>& holders,
                           const std::map<WorkerId, Reduced>& reports);

}  // namespace swarm::protocol
