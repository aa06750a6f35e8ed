// A study for `swarmctl simulate`: workers that keep states of other stages. swarm-worker does not
// do this; nothing here is part of it.
//
// A worker fetches a *copy* of another stage's state into host memory while it goes on serving its
// own stage, and *switches* when the copy is complete. Its old state then stays with it as a copy.
// The price is memory for more states, and effort: a complete copy is kept current as a joiner's
// state is, by replaying each step's reduced gradients.
//
// Pure. Units and ties are those of worker/protocol/balance/balance.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/protocol/balance/balance.h"

namespace swarm::ctl {

/// The state of another stage, held by a worker beside that of the stage it serves.
struct Copy {
  protocol::StageIndex stage;
  double seconds_left = 0;  ///< until it is complete; 0: complete, and kept current
};

/// All stages, and the copies that their workers hold. Worker ids are unique among all stages.
struct CopySwarm {
  std::vector<protocol::StageLoad> stages;
  std::map<protocol::WorkerId, std::vector<Copy>> copies;  ///< workers without copies may lack

  /// The copies of a worker; empty if it has none.
  const std::vector<Copy>& Of(const protocol::WorkerId& worker) const;
  /// The worker's copy of the stage, complete or not; null if it has none.
  const Copy* Find(const protocol::WorkerId& worker, std::size_t stage) const;
  /// Whether the worker has a complete copy of the stage.
  bool Holds(const protocol::WorkerId& worker, std::size_t stage) const;
};

struct CopyModel {
  protocol::BalanceModel balance;  ///< without `donor_drag`: `copy_drag` stands for it
  double copy_drag = 0.05;         ///< share of its rate that a worker loses with each copy
  int copies_per_worker = 2;       ///< 0: no memory for a second state
};

enum class CopyAction : std::uint8_t {
  kSwitch,  ///< serves `to` from now on, of which it has a complete copy; the old state is its copy
  kFetch,   ///< goes on serving `from`, fetches a copy of `to`
  kDrop,    ///< goes on serving `from`, frees its copy of `to`
  kMove,    ///< as in protocol::BalanceOrder: leaves `from`, loads the state of `to`, joins there
};

/// A list of orders is carried out in its order. Then no stage is ever without a ready replica
/// because of them.
struct CopyOrder {
  CopyAction action = CopyAction::kSwitch;
  protocol::WorkerId worker;
  protocol::StageIndex from;
  protocol::StageIndex to;
  std::string reason;
};

/// Carries out an order on values: a kFetch adds a copy with all its loading ahead, a kMove a
/// joiner. Requires that the order fits.
void Apply(const CopyOrder& order, CopySwarm* swarm, const CopyModel& model);

/// What the upkeep of its copies takes from a replica's rate.
double Drag(const CopySwarm& swarm, const protocol::ReplicaLoad& replica, const CopyModel& model);

/// The rate of the slowest stage, by its ready replicas, with the drag of their copies.
double Throughput(const CopySwarm& swarm, const CopyModel& model);

/// Switches workers to stages of which they have complete copies as long as that raises the
/// throughput of the ready replicas. Returns the hops, in the order in which they are made.
///
/// Here and below, rates are without drag: copies are kept only where they slow nothing that
/// matters.
std::vector<protocol::balancing::Hop> SwitchAll(CopySwarm* swarm, const CopyModel& model);

/// The swarm once all that is under way is done: joiners are ready, copies complete, and the
/// switches that pay are made.
CopySwarm Predict(const CopySwarm& swarm, const CopyModel& model);

/// The throughput of Predict(), without drag.
double PredictedThroughput(const CopySwarm& swarm, const CopyModel& model);

}  // namespace swarm::ctl
