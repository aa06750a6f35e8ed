#include "worker/protocol/coordinator/membership/rebalancing.h"

#include <algorithm>
#include <numeric>

#include "worker/protocol/balance/event_rule.h"
#include "worker/protocol/roster.h"

namespace swarm::protocol {
namespace {

/// A measured rate varies by this much without a cause. Smaller gains are no reason to move.
constexpr double kMinGain = 0.15;
/// A move that takes longer is given up; and longer than a few others took.
constexpr Duration kMovePatience = std::chrono::seconds(120);
constexpr double kMovePatienceFactor = 3;
/// Between two looks at rates that may have shifted without any event.
constexpr Duration kShiftPeriod = std::chrono::seconds(30);
/// An operator that has been silent for longer does not decide any more.
constexpr Duration kOperatorPatience = std::chrono::seconds(30);
/// Until joins have been measured.
constexpr double kJoinSeconds = 10;

void Average(double seconds, double* average) {
  *average = *average == 0 ? seconds : 0.8 * *average + 0.2 * seconds;
}

/// The places of the stage's replicas, by pod.
std::map<std::string, std::vector<std::size_t>> PodsAt(const Members& members,
                                                       const StageLoad& load) {
  std::map<std::string, std::vector<std::size_t>> pods;
  for (std::size_t i = 0; i < load.replicas.size(); ++i) {
    const WorkerId& id = load.replicas[i].worker;
    const Worker* worker = members.Find(id);
    pods[worker == nullptr ? id.value : PodOf(worker->member)].push_back(i);
  }
  return pods;
}

/// Marks the worker without which the stage would be there for the workers of one pod alone.
void KeepPodsApart(const Members& members, StageLoad* load) {
  const auto pods = PodsAt(members, *load);
  if (pods.size() != 2 || load->replicas.size() < 3) return;
  for (const auto& [pod, places] : pods) {
    if (places.size() == 1) load->replicas[places[0]].keeps_pods_apart = true;
  }
}

/// The slowest of the stages that the workers of one pod, another than `pod`, serve alone. None:
/// there is no such stage.
std::optional<StageIndex> FindOfOnePod(const Members& members, const std::string& pod,
                                       const std::vector<StageLoad>& loads) {
  const std::vector<double> rates = balancing::FullRates(loads);
  std::optional<StageIndex> found;
  for (std::size_t s = 0; s < loads.size(); ++s) {
    const auto pods = PodsAt(members, loads[s]);
    if (pods.size() != 1 || pods.contains(pod)) continue;
    if (!found || rates[s] < rates[found->value]) found = StageIndex(s);
  }
  return found;
}

}  // namespace

std::vector<double> Rebalancing::StageSeconds() const {
  std::vector<double> seconds(job_.stages(), 0);
  double total = 0, known = 0;
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    double sum = 0, measured = 0;
    for (const WorkerId& id : members_.ReadyReplicas(StageIndex(s))) {
      const double own = router_.ServiceSeconds(id);
      if (own <= 0) continue;
      sum += own;
      ++measured;
    }
    if (sum <= 0) continue;
    seconds[s] = sum / measured;
    total += seconds[s];
    ++known;
  }
  for (double& s : seconds) {
    if (s == 0) s = known == 0 ? 1 : total / known;
  }
  return seconds;
}

std::vector<StageLoad> Rebalancing::Loads() const {
  std::vector<StageLoad> loads(job_.stages());
  const std::vector<double> seconds = StageSeconds();
  const double total = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    loads[s].cost = seconds[s] * static_cast<double>(job_.stages()) / total;
  }
  for (const auto& [id, worker] : members_.all()) {
    if (worker.role() == Role::kWaiting || worker.leave()) continue;
    const std::uint64_t s = worker.member.stage.value;
    const double own = worker.role() == Role::kReady ? router_.ServiceSeconds(id) : 0;
    loads[s].replicas.push_back({.worker = id,
                                 .rate = 1 / (own > 0 ? own : seconds[s]),
                                 .ready = worker.role() == Role::kReady,
                                 .region = worker.member.region});
  }
  // A worker that will come back as a replica of another stage counts as joining it.
  for (const auto& [id, moving] : moving_) {
    if (members_.Has(id)) continue;
    loads[moving.to.value].replicas.push_back({.worker = id,
                                               .rate = 1 / seconds[moving.to.value],
                                               .ready = false,
                                               .region = moving.region});
  }
  for (StageLoad& load : loads) KeepPodsApart(members_, &load);
  return loads;
}

BalanceModel Rebalancing::Model() const {
  // A worker that moves gets no new work from the order on.
  return {
      .state_load_seconds = hand_over_seconds_ + (join_seconds_ > 0 ? join_seconds_ : kJoinSeconds),
      .changes_per_worker_second = churn_.PerWorkerSecond(),
      .min_gain = kMinGain,
      .regions = job_.options.rules.heed_regions ? job_.options.regions : RegionRule()};
}

StageIndex Rebalancing::ChooseStage(const WorkerId& worker, std::optional<StageIndex> held) {
  if (const auto moving = moving_.extract(worker)) return moving.mapped().to;
  if (held) return *held;
  std::vector<StageLoad> loads = Loads();
  const Member& member = members_.At(worker).member;
  const BalanceModel model = Model();
  const StageIndex slowest = PlaceJoiner(loads, member.region, model);
  if (member.pod.empty() || loads[slowest.value].replicas.empty()) return slowest;
  if (model.regions.survive_loss && FindToSpread(loads, member.region)) return slowest;
  if (const auto of_one = FindOfOnePod(members_, member.pod, loads)) return *of_one;
  const std::optional<StageIndex> own = members_.StageOfPod(member);
  if (!own || !members_.HasOtherPods(*own, PodOf(member))) return slowest;
  const double without = PredictedThroughput(loads);
  loads[slowest.value].replicas.push_back(
      {.worker = worker, .rate = 1 / StageSeconds()[slowest.value]});
  return PredictedThroughput(loads) > without * (1 + kMinGain) ? slowest : *own;
}

void Rebalancing::CountChange() {
  churn_.Observe(0, 1);
  changed_ = true;
}

void Rebalancing::MeasureJoin(double seconds) { Average(seconds, &join_seconds_); }

void Rebalancing::MeasureHandOver(const Leave& move, Timepoint now) {
  Average(ToSeconds(now - move.began), &hand_over_seconds_);
}

Duration Rebalancing::Patience() const {
  return std::max(kMovePatience, FromSeconds(kMovePatienceFactor * hand_over_seconds_));
}

void Rebalancing::OnMovedAway(const Worker& worker, Timepoint now) {
  MeasureHandOver(*worker.leave(), now);
  moving_[worker.member.id] = {*worker.leave()->to, now, worker.member.region};
}

void Rebalancing::Clear() {
  moving_.clear();
  for (auto& [id, worker] : members_.all()) {
    if (worker.leave() && worker.leave()->IsMove()) members_.EndLeave(worker);
  }
}

void Rebalancing::GiveUpLateMoves(Turn& turn) {
  std::erase_if(moving_, [&](const auto& m) { return turn.now - m.second.since >= kMovePatience; });
  for (auto& [id, worker] : members_.all()) {
    if (!worker.leave() || !worker.leave()->IsMove() || turn.now < worker.leave()->deadline)
      continue;
    MeasureHandOver(*worker.leave(), turn.now);
    for (const auto& [step, parcel] : worker.leave()->parcels) {
      turn.Tell(id, Thaw{job_.options.term, job_.generation, step});
    }
    members_.EndLeave(worker);
    router_.SetReplicas(members_.RoutableReplicas());
  }
}

std::optional<BalanceTrigger> Rebalancing::IsDue(Timepoint now) {
  const bool periodic = job_.options.balance == BalancePolicy::kPeriodic;
  const Duration period = periodic ? job_.options.balance_period : kShiftPeriod;
  if (decided_ == Timepoint()) decided_ = now;
  const bool round = now - decided_ >= period;
  if (!round && (periodic || !changed_)) return std::nullopt;
  churn_.Observe(ToSeconds(now - decided_) * static_cast<double>(members_.all().size()), 0);
  decided_ = now;
  return round ? BalanceTrigger::kRound : BalanceTrigger::kChange;
}

bool Rebalancing::IsMoving() const {
  return !moving_.empty() ||
         std::any_of(members_.all().begin(), members_.all().end(), [](const auto& entry) {
           return entry.second.leave() && entry.second.leave()->IsMove();
         });
}

void Rebalancing::Rebalance(Turn& turn) {
  GiveUpLateMoves(turn);
  by_operator_ = operator_heard_ && turn.now - *operator_heard_ < kOperatorPatience;
  if (job_.phase != Phase::kTraining || job_.stopping ||
      job_.options.balance == BalancePolicy::kNone || by_operator_) {
    return;
  }
  // A stage in one region alone does not wait for an event: a new trainer has seen none.
  const BalanceModel model = Model();
  if (model.regions.survive_loss && !IsMoving() &&
      BeginFirst(balancing::OrdersOf(SpreadOverRegions(Loads())), turn)) {
    return;
  }
  const auto trigger = IsDue(turn.now);
  if (!trigger) return;
  changed_ = IsMoving();
  if (!changed_) BeginFirst(Balance(job_.options.balance, *trigger, Loads(), model), turn);
}

bool Rebalancing::BeginFirst(const std::vector<BalanceOrder>& moves, Turn& turn) {
  for (const BalanceOrder& move : moves) {
    const Worker* worker = members_.Find(move.worker);
    if (worker == nullptr || worker->role() != Role::kReady || worker->leave() ||
        members_.ReadyReplicas(worker->member.stage).size() < 2) {
      continue;
    }
    BeginMove(move.worker, move.to, move.reason, turn);
    return true;
  }
  return false;
}

void Rebalancing::BeginMove(const WorkerId& id, StageIndex to, const std::string& reason,
                            Turn& turn) {
  Worker& worker = members_.At(id);
  Leave& leave = members_.BeginLeave(worker);
  leave.to = to;
  leave.began = turn.now;
  leave.deadline = turn.now + Patience();
  ++job_.counts.moves;
  turn.Report(EventKind::kWorkerMoves,
              id.value + " goes from stage " + std::to_string(worker.member.stage.value) +
                  " to stage " + std::to_string(to.value) + ": " + reason,
              {.worker = id, .stage = worker.member.stage});
  router_.SetReplicas(members_.RoutableReplicas());
}

std::string Rebalancing::Move(const StageMove& move, Turn& turn) {
  const std::string& name = move.worker.value;
  if (move.to.value >= job_.stages()) {
    return "there is no stage " + std::to_string(move.to.value) + " for " + name;
  }
  if (const auto known = moving_.find(move.worker); known != moving_.end()) {
    known->second.to = move.to;  // it is on its way, and joins there instead
    return "";
  }
  Worker* worker = members_.Find(move.worker);
  if (worker == nullptr) return name + " is not here";
  if (worker->role() == Role::kWaiting) {
    moving_[move.worker] = {move.to, turn.now, worker->member.region};
    return "";
  }
  if (worker->leave()) {
    if (!worker->leave()->IsMove()) return name + " is leaving";
    worker->leave()->to = move.to;
    return "";
  }
  if (worker->member.stage == move.to) return "";
  if (worker->role() != Role::kReady || job_.phase != Phase::kTraining || job_.stopping) {
    return name + " cannot move now";
  }
  if (members_.StayingReplicas(worker->member.stage).size() < 2) {
    return name + " is the last that stays at stage " + std::to_string(worker->member.stage.value);
  }
  BeginMove(move.worker, move.to, "the operator says so", turn);
  return "";
}

void Rebalancing::TellOfRegions(Turn& turn) {
  if (!job_.options.regions.survive_loss || job_.phase != Phase::kTraining) return;
  const bool settles = IsMoving() || std::ranges::any_of(members_.all(), [](const auto& entry) {
                         return entry.second.role() != Role::kReady || entry.second.leave();
                       });
  if (settles) return;
  std::string text = DescribeOneRegion(Loads());
  if (text == one_region_) return;
  one_region_ = std::move(text);
  turn.Report(EventKind::kRegionsSpread,
              one_region_.empty() ? "every stage has replicas in two regions" : one_region_);
}

BalanceStatus Rebalancing::Status() const {
  BalanceStatus status;
  if (job_.options.regions.survive_loss && job_.IsTraining()) {
    status.one_region = DescribeOneRegion(Loads());
  }
  for (const auto& [id, worker] : members_.all()) {
    if (worker.leave() && worker.leave()->IsMove())
      status.moving.push_back({id, *worker.leave()->to});
  }
  for (const auto& [id, moving] : moving_) status.moving.push_back({id, moving.to});
  const BalanceModel model = Model();
  status.state_load_seconds = model.state_load_seconds;
  status.changes_per_worker_second = model.changes_per_worker_second;
  status.by_operator = by_operator_;
  return status;
}

}  // namespace swarm::protocol
