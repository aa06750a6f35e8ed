// Coordinator: which stage a worker serves, and who moves (design: balance.h decides; here it is
// carried out by leaving one stage and joining another, rule 18).
#include <algorithm>
#include <numeric>

#include "worker/protocol/coordinator/coordinator.h"

namespace swarm::protocol {
namespace {

/// A rate that is measured on the way differs by this much for no reason: no cause to move.
constexpr double kMinGain = 0.15;
/// A move that has not come to its end by then is given up.
constexpr Duration kMovePatience = std::chrono::seconds(120);
/// Between two looks at rates that may have shifted without any event.
constexpr Duration kShiftPeriod = std::chrono::seconds(30);
/// Without a word of an operator the trainer decides itself.
constexpr Duration kOperatorPatience = std::chrono::seconds(30);
/// Until joins have been measured.
constexpr double kJoinSeconds = 10;

}  // namespace

/// Of one microbatch at a replica of each stage: the mean of those that are measured; where nobody
/// of a stage is, that of the stages where somebody is.
std::vector<double> Coordinator::StageSeconds() const {
  std::vector<double> seconds(stages(), 0);
  double total = 0, known = 0;
  for (std::uint64_t s = 0; s < stages(); ++s) {
    double sum = 0, measured = 0;
    for (const WorkerId& id : ReadyReplicas(StageIndex(s))) {
      if (!router_.IsMeasured(id)) continue;
      sum += router_.EstimateSeconds(id);
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

/// The swarm as balance.h sees it. Who is loading, joining or leaving is on its way.
std::vector<StageLoad> Coordinator::Loads() const {
  std::vector<StageLoad> loads(stages());
  const std::vector<double> seconds = StageSeconds();
  const double total = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  for (std::uint64_t s = 0; s < stages(); ++s) {
    loads[s].cost = seconds[s] * static_cast<double>(stages()) / total;
  }
  for (const auto& [id, worker] : workers_) {
    if (worker.role == Role::kWaiting || worker.leave) continue;
    const std::uint64_t s = worker.member.stage.value;
    const bool measured = worker.role == Role::kReady && router_.IsMeasured(id);
    const double own = measured ? router_.EstimateSeconds(id) : seconds[s];
    loads[s].replicas.push_back({.worker = id,
                                 .rate = 1 / (own > 0 ? own : seconds[s]),
                                 .ready = worker.role == Role::kReady,
                                 .copies = {}});
  }
  // Who is coming back as a replica of another stage is as good as joining it.
  for (const auto& [id, move] : moves_) {
    if (workers_.contains(id)) continue;
    const StageIndex stage = move.first;
    loads[stage.value].replicas.push_back(
        {.worker = id, .rate = 1 / seconds[stage.value], .ready = false, .copies = {}});
  }
  return loads;
}

BalanceModel Coordinator::Model() const {
  return {.state_load_seconds = join_seconds_ > 0 ? join_seconds_ : kJoinSeconds,
          .changes_per_worker_second = churn_.PerWorkerSecond(),
          .min_gain = kMinGain,
          .copies_per_worker = 0};
}

StageIndex Coordinator::ChooseJoinStage(const WorkerId& worker) {
  if (const auto move = moves_.extract(worker)) return move.mapped().first;
  return PlaceJoiner(Loads());
}

void Coordinator::CountChange(double changes) {
  churn_.Observe(0, changes);
  balance_due_ = true;
}

/// Who cannot hand over stays where it is; who does not come back is not waited for.
void Coordinator::GiveUpMoves(Timepoint now, Orders& orders) {
  std::erase_if(moves_, [&](const auto& m) { return now - m.second.second >= kMovePatience; });
  for (auto& [id, worker] : workers_) {
    if (!worker.leave || !worker.leave->IsMove() || now < worker.leave->deadline) continue;
    for (const auto& [step, parcel] : worker.leave->parcels) {
      orders.push_back(order::Tell{id, Thaw{options_.term, generation_, step}});
    }
    worker.leave.reset();
    UpdateRouter();
  }
}

/// At most one worker moves at a time: what it changes is seen before the next one goes. An
/// operator that is heard knows more (who is about to come, or to go), and decides instead.
void Coordinator::Rebalance(Timepoint now, Orders& orders) {
  GiveUpMoves(now, orders);
  by_operator_ = operator_heard_ && now - *operator_heard_ < kOperatorPatience;
  if (phase_ != Phase::kTraining || stopping_ || options_.balance == BalancePolicy::kNone ||
      by_operator_) {
    return;
  }
  const bool periodic = options_.balance == BalancePolicy::kPeriodic;
  const Duration period = periodic ? options_.balance_period : kShiftPeriod;
  if (balanced_ == Timepoint()) balanced_ = now;
  const bool round = now - balanced_ >= period;
  if (!round && (periodic || !balance_due_)) return;
  churn_.Observe(ToSeconds(now - balanced_) * static_cast<double>(workers_.size()), 0);
  balanced_ = now;
  balance_due_ = false;
  const bool moving = !moves_.empty() || std::any_of(workers_.begin(), workers_.end(), [](auto& w) {
    return w.second.leave && w.second.leave->IsMove();
  });
  if (moving) {
    balance_due_ = true;
    return;
  }
  const auto decided = Balance(
      options_.balance, round ? BalanceTrigger::kRound : BalanceTrigger::kChange, Loads(), Model());
  for (const BalanceOrder& move : decided) {
    const auto it = workers_.find(move.worker);
    if (move.action != BalanceAction::kMove || it == workers_.end() ||
        it->second.role != Role::kReady || it->second.leave ||
        ReadyReplicas(it->second.member.stage).size() < 2) {
      continue;
    }
    BeginMove(move.worker, move.to, move.reason, now, orders);
    return;
  }
}

/// Requires that the worker is ready and stays on no account of anybody.
void Coordinator::BeginMove(const WorkerId& id, StageIndex to, const std::string& reason,
                            Timepoint now, Orders& orders) {
  Worker& worker = workers_.at(id);
  worker.leave.emplace();
  worker.leave->to = to;
  worker.leave->deadline = now + kMovePatience;
  ++counts_.moves;
  orders.push_back(order::Event{
      "WorkerMoves", id.value + " goes from stage " + std::to_string(worker.member.stage.value) +
                         " to stage " + std::to_string(to.value) + ": " + reason});
  UpdateRouter();
}

}  // namespace swarm::protocol
