// Which of its neighbours a worker hears. A worker sends beats to its neighbours and reports those
// that it has not heard for too long; the trainer decides what follows (docs/protocol.md, rule 28).
// So a broken pair is told apart from a broken worker. Pure.
//
// Neighbours are the workers that exchange data: in a small swarm all members, in a large one those
// in the row and the column of a sum of the stage (grid/reduce_grid.h), of two stages where those
// have a sum in common (a tied head), and those in the mesh (routing/mesh/mesh.h). Beats are as
// frequent as the number of neighbours allows. Where devices are unlike, routes lead to other
// workers as well: as long as they do, these are watched, too.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "worker/protocol/grid/reduce_grid.h"
#include "worker/protocol/liveness/detector.h"
#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/message.h"
#include "worker/protocol/routing/mesh/mesh.h"

namespace swarm::protocol {

class Neighbours {
 public:
  explicit Neighbours(WorkerId self, MeshOptions mesh = {},
                      std::size_t flat_reduce_max = kFlatReduceMax)
      : self_(std::move(self)), mesh_(mesh), flat_reduce_max_(flat_reduce_max) {}

  /// What was different in the last roster.
  struct Change {
    std::vector<WorkerId> came;  ///< among them new incarnations
    std::vector<WorkerId> gone;  ///< not neighbours any more
  };
  /// `tied`: the first and the last of the stages have a sum in common.
  Change OnRoster(const Roster& roster, std::uint64_t stages, bool tied, Timepoint now);
  bool Has(const WorkerId& id) const { return watched_.contains(id); }
  /// A message goes to the worker, or comes from it. If it carries a microbatch, and the worker is
  /// no neighbour, but a member of the last roster, that is watched like a neighbour until no
  /// microbatch was exchanged for a minute.
  void OnExchange(const WorkerId& with, const Message& message, Timepoint now);
  /// A beat of the worker has come.
  void OnBeat(const WorkerId& from, Timepoint now);
  /// This worker serves no stage: there are no neighbours.
  void Clear();

  struct Due {
    std::vector<WorkerId> beats;    ///< send a beat to these now
    std::optional<Unheard> report;  ///< send to the trainer now
  };
  /// Call it several times a second.
  Due OnTick(Timepoint now);

  /// Between two beats to one neighbour, where there are so many, in a swarm of so many members
  /// with or without a mesh.
  static Duration BeatInterval(std::size_t neighbours, std::size_t members, bool mesh);

 private:
  /// Waits anew for first beats.
  void WaitForConnections(Timepoint now);
  std::map<WorkerId, Incarnation> Find(const Roster& roster, const Member& self,
                                       std::uint64_t stages, bool tied) const;
  /// With whom this worker exchanges data in a sum of these.
  std::vector<WorkerId> PeersInSum(const std::vector<PlacedMember>& participants) const;

  const WorkerId self_;
  const MeshOptions mesh_;
  const std::size_t flat_reduce_max_;
  std::map<WorkerId, Incarnation> watched_;
  std::set<WorkerId> members_;     // of the last roster, if not all of them are neighbours
  std::set<WorkerId> connecting_;  // neighbours in a large swarm without a beat, and not reported
  Timepoint connecting_since_{};
  std::map<WorkerId, Timepoint> exchanging_;  // others that are watched, and their last exchange
  Duration interval_{};
  FailureDetector detector_;
  Timepoint next_beat_{};
  Timepoint next_report_{};
  std::vector<WorkerId> reported_;
};

}  // namespace swarm::protocol
