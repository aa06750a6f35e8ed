// Which of its neighbours a worker hears. A worker sends beats to its neighbours and reports those
// that it has not heard for too long; the trainer decides what follows (docs/protocol.md, rule 28).
// So a broken pair is told apart from a broken worker. Pure.
//
// Neighbours are the workers that may exchange data: in a small swarm all members, in a large one
// those of the same stage and of the stages beside it (the first and the last stage are beside each
// other: a tied head is theirs). Beats are as frequent as the number of neighbours allows.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "worker/protocol/liveness/detector.h"
#include "worker/protocol/messages/control.h"

namespace swarm::protocol {

class Neighbours {
 public:
  explicit Neighbours(WorkerId self) : self_(std::move(self)) {}

  void OnRoster(const Roster& roster, std::uint64_t stages, Timepoint now);
  /// A beat of the worker has come.
  void OnBeat(const WorkerId& from, Timepoint now) { detector_.OnBeat(from, now); }
  /// This worker serves no stage: there are no neighbours.
  void Clear();

  struct Due {
    std::vector<WorkerId> beats;    ///< send a beat to these now
    std::optional<Unheard> report;  ///< send to the trainer now
  };
  /// Call it several times a second.
  Due OnTick(Timepoint now);

  /// Between two beats to one neighbour, where there are so many.
  static Duration BeatInterval(std::size_t neighbours);

 private:
  bool IsNeighbour(const Member& self, const Member& other, std::size_t members,
                   std::uint64_t stages) const;

  const WorkerId self_;
  std::map<WorkerId, Incarnation> watched_;
  Duration interval_{};
  FailureDetector detector_;
  Timepoint next_beat_{};
  Timepoint next_report_{};
  std::vector<WorkerId> reported_;
};

}  // namespace swarm::protocol
