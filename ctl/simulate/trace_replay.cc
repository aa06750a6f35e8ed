#include "ctl/simulate/trace_replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/rng.h"
#include "ctl/simulate/copy_rule.h"

namespace swarm::ctl {
namespace {

using protocol::BalanceOrder;
using protocol::BalancePolicy;
using protocol::BalanceTrigger;
using protocol::ReplicaLoad;
using protocol::StageLoad;
using protocol::WorkerId;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kInstant = 1e-9;  // seconds; less than this is rounding

/// The trainer's policy that a policy of the replay uses. The trainer does not know kCopies.
BalancePolicy PolicyOf(ReplayPolicy policy) {
  switch (policy) {
    case ReplayPolicy::kMoves:
      return BalancePolicy::kEvent;
    case ReplayPolicy::kPeriodic:
      return BalancePolicy::kPeriodic;
    case ReplayPolicy::kCopies:
    case ReplayPolicy::kNone:
      return BalancePolicy::kNone;
  }
  return BalancePolicy::kNone;
}

/// Throughput of the best assignment of so many equal workers: each goes to the slowest stage.
double Optimum(std::size_t workers, const std::vector<double>& costs) {
  std::vector<double> rates(costs.size(), 0);
  for (std::size_t n = 0; n < workers; ++n) {
    const auto least = std::min_element(rates.begin(), rates.end());
    *least += 1 / costs[static_cast<std::size_t>(least - rates.begin())];
  }
  return *std::min_element(rates.begin(), rates.end());
}

/// The fewest moves that keep a swarm at its optimum, if moves take no time.
class LeastMoves {
 public:
  explicit LeastMoves(const std::vector<double>& costs) : costs_(costs), counts_(costs.size(), 0) {}

  void Join(const std::string& node) {
    const std::size_t stage = Extreme(/*most=*/false);
    stage_of_[node] = stage;
    ++counts_[stage];
  }
  void Leave(const std::string& node) {
    --counts_[stage_of_.at(node)];
    stage_of_.erase(node);
  }
  /// Number of moves that it takes to be at the optimum again.
  int Restore() {
    const double optimum = Optimum(stage_of_.size(), costs_);
    int moves = 0;
    for (; Rate(Extreme(false)) < optimum * (1 - kInstant); ++moves) {
      const std::size_t from = Extreme(true);
      const std::size_t to = Extreme(false);
      const auto mover = std::find_if(stage_of_.begin(), stage_of_.end(),
                                      [&](const auto& entry) { return entry.second == from; });
      mover->second = to;
      --counts_[from];
      ++counts_[to];
    }
    return moves;
  }

 private:
  double Rate(std::size_t stage) const { return counts_[stage] / costs_[stage]; }
  /// The stage with the least rate; or the one with the most after it has given one worker.
  std::size_t Extreme(bool most) const {
    std::size_t best = 0;
    for (std::size_t s = 1; s < counts_.size(); ++s) {
      const bool better = most ? (counts_[s] - 1) / costs_[s] > (counts_[best] - 1) / costs_[best]
                               : Rate(s) < Rate(best);
      if (better) best = s;
    }
    return best;
  }

  const std::vector<double>& costs_;
  std::vector<int> counts_;
  std::map<std::string, std::size_t> stage_of_;
};

class Replayer {
 public:
  Replayer(const Trace& trace, const ReplayOptions& options)
      : trace_(trace), options_(options), model_(options.model), least_(options.stage_costs) {
    for (const double cost : options.stage_costs) swarm_.stages.push_back({cost, {}});
    next_round_ = options.policy == ReplayPolicy::kPeriodic ? options.period_seconds : kNever;
  }

  ReplayResult Run() {
    auto event = trace_.events.begin();
    while (now_ < trace_.seconds) {
      const double next_event = event == trace_.events.end() ? kNever : event->seconds;
      Advance(std::min({trace_.seconds, next_event, next_round_, NextArrival()}));
      if (next_event <= now_) Change(*event++);
      const bool round = next_round_ <= now_;
      if (round) next_round_ += options_.period_seconds;
      Decide(round ? BalanceTrigger::kRound : BalanceTrigger::kChange);
    }
    result_.seconds = trace_.seconds;
    const double optimum = std::max(optimum_, std::numeric_limits<double>::min());
    result_.efficiency = throughput_ / optimum;
    result_.attainable_efficiency = attainable_ / optimum;
    result_.stage_empty_share = empty_seconds_ / std::max(staffed_seconds_, kInstant);
    return result_;
  }

 private:
  std::size_t living() const { return joined_at_.size(); }
  double load_seconds() const { return model_.balance.state_load_seconds; }

  template <typename Visit>
  void ForEachLoad(Visit visit) {
    for (auto& [worker, left] : loading_) visit(&left);
    for (auto& [worker, copies] : swarm_.copies) {
      for (Copy& copy : copies) {
        if (copy.seconds_left > 0) visit(&copy.seconds_left);
      }
    }
  }

  double NextArrival() {
    double next = kNever;
    ForEachLoad([&](double* left) { next = std::min(next, now_ + *left); });
    // The bound in Advance() rises when a joiner could be ready, whatever it has done since.
    for (const auto& [worker, at] : joined_at_) {
      if (at + load_seconds() > now_) {
        next = std::min(next, at + load_seconds());
      }
    }
    return next;
  }

  /// Advances the time to `until`. Only loads continue meanwhile.
  void Advance(double until) {
    const double seconds = until - now_;
    const double optimum = Optimum(living(), options_.stage_costs);
    if (optimum > 0) {
      const double throughput = Throughput(swarm_, model_);
      const auto able = std::count_if(joined_at_.begin(), joined_at_.end(), [&](const auto& entry) {
        return entry.second + load_seconds() <= now_ + kInstant;
      });
      optimum_ += seconds * optimum;
      throughput_ += seconds * throughput;
      attainable_ += seconds * Optimum(static_cast<std::size_t>(able), options_.stage_costs);
      staffed_seconds_ += seconds;
      if (throughput <= 0) empty_seconds_ += seconds;
    }
    churn_.Observe(seconds * static_cast<double>(living()), 0);
    now_ = until;
    ForEachLoad([&](double* left) {
      *left -= seconds;
      if (*left < kInstant) *left = 0;
    });
    for (StageLoad& stage : swarm_.stages) {
      for (ReplicaLoad& replica : stage.replicas) {
        const auto load = loading_.find(replica.worker);
        if (load == loading_.end() || load->second > 0) continue;
        replica.ready = true;
        loading_.erase(load);
      }
    }
  }

  void Change(const TraceEvent& event) {
    for (const std::string& node : event.departures) Leave(node);
    std::vector<std::string> joins = event.joins;
    Rng rng(MixAll(options_.seed, static_cast<std::uint64_t>(event.seconds * 1000)));
    std::shuffle(joins.begin(), joins.end(), rng);
    for (const std::string& node : joins) Join(node);
    result_.least_moves += least_.Restore();
    churn_.Observe(0, static_cast<double>(event.departures.size() + event.joins.size()));
  }

  void Leave(const std::string& node) {
    ++result_.departures;
    const WorkerId worker(node);
    for (StageLoad& stage : swarm_.stages) {
      std::erase_if(stage.replicas, [&](const ReplicaLoad& r) { return r.worker == worker; });
    }
    swarm_.copies.erase(worker);
    loading_.erase(worker);
    joined_at_.erase(worker);
    least_.Leave(node);
  }

  void Join(const std::string& node) {
    const bool begins = now_ == 0;
    if (!begins) ++result_.joins;
    const WorkerId worker(node);
    StageLoad& stage = swarm_.stages[protocol::PlaceJoiner(swarm_.stages).value];
    stage.replicas.push_back({worker, 1 / stage.cost, begins});
    if (!begins) loading_[worker] = load_seconds();
    joined_at_[worker] = begins ? -load_seconds() : now_;
    least_.Join(node);
  }

  void Decide(BalanceTrigger trigger) {
    model_.balance.changes_per_worker_second = churn_.PerWorkerSecond();
    if (options_.policy == ReplayPolicy::kCopies) {
      CarryOut(DecideWithCopies(swarm_, model_));
      return;
    }
    const BalancePolicy policy = PolicyOf(options_.policy);
    for (const BalanceOrder& move :
         protocol::Balance(policy, trigger, swarm_.stages, model_.balance)) {
      protocol::Apply(move, &swarm_.stages);
      BeginLoading(move.worker, move.to, load_seconds());
    }
  }

  void CarryOut(const std::vector<CopyOrder>& orders) {
    for (const CopyOrder& order : orders) {
      Apply(order, &swarm_, model_);
      if (order.action == CopyAction::kFetch) ++result_.fetches;
      if (order.action == CopyAction::kMove) BeginLoading(order.worker, order.to, load_seconds());
      if (order.action == CopyAction::kSwitch) {
        BeginLoading(order.worker, order.to, options_.switch_seconds);
      }
    }
  }

  void BeginLoading(const WorkerId& worker, protocol::StageIndex stage, double seconds) {
    ++result_.moves;
    if (seconds > 0) loading_[worker] = seconds;
    protocol::balancing::FindReplica(&swarm_.stages[stage.value], worker)->ready = seconds <= 0;
  }

  const Trace& trace_;
  const ReplayOptions& options_;
  CopyModel model_;
  LeastMoves least_;
  CopySwarm swarm_;                       // with copies under ReplayPolicy::kCopies only
  std::map<WorkerId, double> loading_;    // seconds until ready, of workers that are not
  std::map<WorkerId, double> joined_at_;  // of the living
  protocol::Churn churn_;
  double now_ = 0;
  double next_round_ = kNever;
  double throughput_ = 0;  // integrals over time
  double optimum_ = 0;
  double attainable_ = 0;
  double empty_seconds_ = 0;
  double staffed_seconds_ = 0;
  ReplayResult result_;
};

}  // namespace

ReplayResult Replay(const Trace& trace, const ReplayOptions& options) {
  return Replayer(trace, options).Run();
}

}  // namespace swarm::ctl
