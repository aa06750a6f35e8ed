// Workers that join a job that trains: they copy the pinned state of their stage from its replicas,
// replay the commits decided since, and then serve (rule 17).
#pragma once

#include <map>
#include <set>

#include "worker/protocol/coordinator/membership/rebalancing.h"
#include "worker/protocol/coordinator/step/steps.h"

namespace swarm::protocol {

class Joins {
 public:
  Joins(Job* job, Members* members, Router* router, Steps* steps, Rebalancing* rebalancing)
      : job_(*job),
        members_(*members),
        router_(*router),
        steps_(*steps),
        rebalancing_(*rebalancing) {}

  /// Gives waiting workers a stage and asks its replicas to pin their state.
  void Start(Turn& turn);
  void OnStatePinned(const WorkerId& from, const StatePinned& pinned, Turn& turn);
  /// The worker says how much it has copied.
  void OnBeat(const WorkerId& from, const Heartbeat& beat, Timepoint now);
  /// The joiner has copied its state.
  void OnReady(const WorkerId& from, const Ready& ready, Turn& turn);
  /// A worker that lags by a few commits takes part in sums; one that has applied all of them
  /// serves.
  void CatchUp(const WorkerId& id, Turn& turn);
  /// The worker needs no pinned state any more, or is gone. Without joiners, donors drop the state.
  void Leave(const WorkerId& worker, Turn& turn);
  /// The worker does not pin any state any more.
  void LoseDonor(const WorkerId& worker);
  /// Joins that wait for donors go on without them.
  void CheckPins(Turn& turn);
  /// Demands the eviction of a worker that joins and either makes no progress, however long the
  /// whole may take, or needs reduced gradients that the replicas have no room for.
  void Check(const WorkerId& id, const Worker& worker, Turn& turn) const;
  /// Forgets all joins: the state that they copy is of an earlier generation.
  void Clear();

  /// Reduced gradients of this step and later ones may be asked for by workers of the stage.
  Step KeepFrom(StageIndex stage) const;

 private:
  /// Pinned state of a stage, and the workers that copy it.
  struct Join {
    Version version;
    std::set<WorkerId> asked, joiners;
    std::map<WorkerId, Digest> donors;  // what each has pinned
    Digest state = {};                  // once welcomed
    std::uint64_t lag_max = 0;  // steps that a donor has room for
    Timepoint since;
    bool welcomed = false;  // the donors are known
  };
  /// Welcomes the joiners when all donors have answered, and all replicas have reported their state
  /// of that version: one that holds wrong weights is gone by then.
  void WelcomeIfKnown(StageIndex stage, Join& join, Turn& turn);
  void Welcome(StageIndex stage, Join& join, Turn& turn);
  /// Does without the donors whose state is not that of most donors. Without a majority all are in
  /// doubt.
  void DropDoubtful(Join& join, Turn& turn) const;
  void WelcomeWorker(const WorkerId& id, Worker& worker, const Join& join, Turn& turn);
  /// The first version for which the others keep their gradients for a worker that joins.
  Version BeginOf(const Worker& worker) const;

  Job& job_;
  Members& members_;
  Router& router_;
  Steps& steps_;
  Rebalancing& rebalancing_;
  std::map<StageIndex, Join> joins_;
};

}  // namespace swarm::protocol
