// Workers that join a job that trains: they copy the pinned state of their stage from its replicas,
// or come back with a state, replay the commits decided since, and then serve (rule 17).
#pragma once

#include <map>
#include <set>
#include <vector>

#include "worker/protocol/coordinator/membership/rebalancing.h"
#include "worker/protocol/coordinator/step/state_reports.h"
#include "worker/protocol/coordinator/step/steps.h"

namespace swarm::protocol {

class Joins {
 public:
  Joins(Job* job, Members* members, Router* router, const StateReports* states, Steps* steps,
        Rebalancing* rebalancing)
      : job_(*job),
        members_(*members),
        router_(*router),
        states_(*states),
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
  /// The worker departs and may live: the reduced gradients that it lacks are kept for a while.
  void NoteAway(const Worker& worker, Timepoint now);
  /// A worker has come, maybe one that was away.
  void OnCome(const Worker& worker, Timepoint now);
  /// Waits no longer for workers that are away for too long.
  void CheckAway(Timepoint now);
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
  /// A worker that may come back with its state.
  struct Away {
    StageIndex stage;
    Version version;
    Timepoint until;
  };
  /// Pinned state of a stage, and the workers that copy it.
  struct Join {
    Version version;
    std::set<WorkerId> asked, joiners;
    std::map<WorkerId, Digest> donors;  // what each has pinned
    Digest state = {};                  // once welcomed
    std::uint64_t lag_max = 0;          // steps that a donor has room for
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
  /// Whether the replicas have yet to report the state that the worker offers.
  bool AwaitsReports(const HeldState& offer) const;
  /// The worker may go on from the state that it offers: the replicas had the same.
  bool IsTrue(const HeldState& offer) const;
  /// Lets the worker go on from the state that it offers. False if what was decided since is not
  /// kept any more.
  bool TakeBack(const WorkerId& id, Worker& worker, Turn& turn);
  /// Whether a replica of the stage has all reduced gradients since that version, and needs none of
  /// them from others.
  bool AreGradientsKept(Version version, StageIndex stage) const;
  /// Whether replicas have the weights that each step since that version has made, where parts have
  /// holders.
  bool AreWeightsKept(Version version, StageIndex stage) const;
  /// Replicas of the stage that have all reduced gradients since that version.
  std::vector<Member> DonorsSince(Version version, StageIndex stage) const;
  /// The replicas of the stage that may give a copy of its state: those that a joiner can dial;
  /// all, if it can dial none.
  std::vector<WorkerId> DonorsOf(StageIndex stage) const;
  /// Has those that give the joiner something, and that nobody can dial, dial it.
  void Introduce(const WorkerId& id, const protocol::Welcome& welcome, Turn& turn) const;
  /// Tells the worker where its state comes from, and what was decided since.
  void Begin(const WorkerId& id, protocol::Welcome welcome, Turn& turn);
  /// The first version for which the others keep their gradients for a worker that joins.
  Version BeginOf(const Worker& worker) const;

  Job& job_;
  Members& members_;
  Router& router_;
  const StateReports& states_;
  Steps& steps_;
  Rebalancing& rebalancing_;
  std::map<StageIndex, Join> joins_;
  std::map<WorkerId, Away> away_;
  std::set<WorkerId> replaying_;  // those that hold a state, and are not in the roster yet
};

}  // namespace swarm::protocol
