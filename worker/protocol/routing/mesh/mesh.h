// Which workers of two stages beside each other exchange data in a large swarm (docs/protocol.md,
// rule 30). A function of the roster: trainer and workers draw the same. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "worker/protocol/ids.h"

namespace swarm::protocol {

struct MeshOptions {
  /// Up to this many members, all workers may exchange data.
  std::uint64_t all_up_to = 64;
  /// Neighbours of a worker in the stage beside its own: so many to twice as many where the stages
  /// are alike. Stages of which one has no more replicas than that are connected as a whole.
  std::uint64_t degree = 8;
};

/// The neighbours of each worker in the other stage, sorted. Empty: all pairs are neighbours.
using Neighbourhood = std::map<WorkerId, std::vector<WorkerId>>;

/// The neighbours that the workers of both stages have in the other one; `lower` is the stage
/// before `upper`. Each worker has at least one. Those of a stage have about as many each, and a
/// worker that comes or goes changes few of the others' neighbours. Costs O(n log n).
Neighbourhood DrawNeighbourhood(const std::vector<WorkerId>& lower,
                                const std::vector<WorkerId>& upper, const MeshOptions& options);

/// The neighbours of all workers of a job.
class Mesh {
 public:
  /// All pairs are neighbours.
  Mesh() = default;
  /// `stages`: the members of each.
  Mesh(const std::vector<std::vector<WorkerId>>& stages, const MeshOptions& options);

  bool empty() const { return cuts_.empty(); }
  /// The neighbours in `stage` of a worker of the stage before. Null: all are, or it is not known.
  const std::vector<WorkerId>* After(std::uint64_t stage, const WorkerId& before) const;
  /// The same of a worker of the stage after.
  const std::vector<WorkerId>* Before(std::uint64_t stage, const WorkerId& after) const;

 private:
  const std::vector<WorkerId>* Find(std::size_t cut, const WorkerId& worker) const;

  std::vector<Neighbourhood> cuts_;  // [s]: of stages s and s + 1
};

}  // namespace swarm::protocol
