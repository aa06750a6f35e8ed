// Which workers go to another stage, and when. balance.h decides; this class measures the rates for
// the decision and carries it out, as a leave and a join (rule 18).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "worker/protocol/balance/balance.h"
#include "worker/protocol/coordinator/membership/members.h"
#include "worker/protocol/routing/router.h"

namespace swarm::protocol {

class Rebalancing {
 public:
  Rebalancing(Job* job, Members* members, Router* router)
      : job_(*job), members_(*members), router_(*router) {}

  /// Lets at most one worker move at a time, so that the effect of a move is seen before the next
  /// one. While an operator is heard, it decides instead: it knows which workers are about to come
  /// and go.
  void Rebalance(Turn& turn);
  /// An operator wants the worker at another stage. Returns the reason if that is impossible, else
  /// nothing.
  std::string Move(const StageMove& move, Turn& turn);
  void OnOperatorHeard(Timepoint now) { operator_heard_ = now; }
  /// A worker joined the roster, was lost from it, or begins to leave it.
  void CountChange();
  /// A worker took `seconds` from its hello until it served.
  void MeasureJoin(double seconds);
  /// The worker, which moves, leaves its stage now, and is to come back at another.
  void OnMovedAway(const Worker& worker, Timepoint now);
  /// The stage for a worker that has none; `held`: the one whose state it holds. Regions go first
  /// (PlaceJoiner). A worker of a pod goes where another pod is alone, or else where the others of
  /// its pod are, unless they are alone there, or the job would gain so much elsewhere that a
  /// worker would soon move.
  StageIndex ChooseStage(const WorkerId& worker, std::optional<StageIndex> held = std::nullopt);
  /// Forgets all moves.
  void Clear();

  /// Seconds of one microbatch at a replica of each stage: the mean over the replicas that are
  /// measured, or else over the stages that are.
  std::vector<double> StageSeconds() const;
  BalanceStatus Status() const;
  /// Reports which stages are in one region alone, if the job is to survive the loss of one: when
  /// that changes, and no worker is about to change it.
  void TellOfRegions(Turn& turn);

 private:
  /// The swarm as balance.h sees it. Workers that load, join or move are on their way.
  std::vector<StageLoad> Loads() const;
  BalanceModel Model() const;
  void MeasureHandOver(const Leave& move, Timepoint now);
  /// How long a worker that moves may take to hand over.
  Duration Patience() const;
  /// Lets a worker that cannot hand over stay, and stops waiting for one that does not come back.
  void GiveUpLateMoves(Turn& turn);
  /// Why the balance must be decided now: after a change, or a period. None: not now.
  std::optional<BalanceTrigger> IsDue(Timepoint now);
  bool IsMoving() const;
  /// Begins the first of the moves that can be made now. False: there is none.
  bool BeginFirst(const std::vector<BalanceOrder>& moves, Turn& turn);
  /// Requires that the worker is ready and that its stage can spare it.
  void BeginMove(const WorkerId& id, StageIndex to, const std::string& reason, Turn& turn);

  struct Moving {
    StageIndex to;
    Timepoint since;
    std::string region;
  };
  Job& job_;
  Members& members_;
  Router& router_;
  std::map<WorkerId, Moving> moving_;  // have left their stage to come back at another
  bool changed_ = false;               // membership or a rate, since the last decision
  Timepoint decided_;                  // the last time
  Churn churn_;
  double join_seconds_ = 0;       // an average; 0: not measured
  double hand_over_seconds_ = 0;  // the same, from the order to move until the worker left
  std::optional<Timepoint> operator_heard_;
  bool by_operator_ = false;
  std::string one_region_;  // as last reported
};

}  // namespace swarm::protocol
