// Which tensors are summed together, and among which stages.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/protocol/ids.h"

namespace swarm::protocol {

/// The tensors that one reduce sums, and the stages whose replicas take part.
struct ReduceGroup {
  GroupIndex index;
  std::vector<StageIndex> stages;
  bool Has(StageIndex stage) const;
};

/// One group a stage; with `tied_head` one more, of the first and the last stage; with
/// `shared_basis` one more, of all.
std::vector<ReduceGroup> ComputeReduceGroups(std::uint64_t stages, bool tied_head,
                                             bool shared_basis);

}  // namespace swarm::protocol
