#include "ctl/simulate/trace_replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/rng.h"

namespace swarm::ctl {
namespace {

using protocol::BalanceAction;
using protocol::BalanceOrder;
using protocol::BalanceTrigger;
using protocol::Copy;
using protocol::ReplicaLoad;
using protocol::StageLoad;
using protocol::WorkerId;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kInstant = 1e-9;  // seconds below which rounding is to blame

/// Throughput of the best assignment of so many equal workers: each goes where most is missing.
double Optimum(std::size_t workers, const std::vector<double>& costs) {
  std::vector<double> rates(costs.size(), 0);
  for (std::size_t n = 0; n < workers; ++n) {
    const auto least = std::min_element(rates.begin(), rates.end());
    *least += 1 / costs[static_cast<std::size_t>(least - rates.begin())];
  }
  return *std::min_element(rates.begin(), rates.end());
}

/// Workers that move in no time, as few as will do.
class LeastMoves {
 public:
  explicit LeastMoves(const std::vector<double>& costs) : costs_(costs), counts_(costs.size(), 0) {}

  void Join(const std::string& node) {
    const std::size_t stage = Extreme(/*most=*/false);
    stage_of_[node] = stage;
    ++counts_[stage];
  }
  void Lose(const std::string& node) {
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
  /// The stage that has the least; or the one that would keep most after giving one.
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
    for (const double cost : options.stage_costs) stages_.push_back({cost, {}});
    next_round_ =
        options.policy == protocol::BalancePolicy::kPeriodic ? options.period_seconds : kNever;
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

  template <typename Visit>
  void ForEachLoad(Visit visit) {
    for (auto& [worker, left] : loading_) visit(&left);
    for (StageLoad& stage : stages_) {
      for (ReplicaLoad& replica : stage.replicas) {
        for (Copy& copy : replica.copies) {
          if (copy.seconds_left > 0) visit(&copy.seconds_left);
        }
      }
    }
  }

  double NextArrival() {
    double next = kNever;
    ForEachLoad([&](double* left) { next = std::min(next, now_ + *left); });
    // The bound below changes when a joiner could be ready, whatever was made of it since.
    for (const auto& [worker, at] : joined_at_) {
      if (at + model_.state_load_seconds > now_) {
        next = std::min(next, at + model_.state_load_seconds);
      }
    }
    return next;
  }

  /// Time passes with nothing happening but loads that go on.
  void Advance(double until) {
    const double seconds = until - now_;
    const double optimum = Optimum(living(), options_.stage_costs);
    if (optimum > 0) {
      const double throughput = protocol::Throughput(stages_, model_);
      const auto able = std::count_if(joined_at_.begin(), joined_at_.end(), [&](const auto& entry) {
        return entry.second + model_.state_load_seconds <= now_ + kInstant;
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
    for (StageLoad& stage : stages_) {
      for (ReplicaLoad& replica : stage.replicas) {
        const auto load = loading_.find(replica.worker);
        if (load == loading_.end() || load->second > 0) continue;
        replica.ready = true;
        loading_.erase(load);
      }
    }
  }

  void Change(const TraceEvent& event) {
    for (const std::string& node : event.losses) Lose(node);
    std::vector<std::string> joins = event.joins;
    Rng rng(MixAll(options_.seed, static_cast<std::uint64_t>(event.seconds * 1000)));
    std::shuffle(joins.begin(), joins.end(), rng);
    for (const std::string& node : joins) Join(node);
    result_.least_moves += least_.Restore();
    churn_.Observe(0, static_cast<double>(event.losses.size() + event.joins.size()));
  }

  void Lose(const std::string& node) {
    ++result_.losses;
    const WorkerId worker(node);
    for (StageLoad& stage : stages_) {
      std::erase_if(stage.replicas, [&](const ReplicaLoad& r) { return r.worker == worker; });
    }
    loading_.erase(worker);
    joined_at_.erase(worker);
    least_.Lose(node);
  }

  void Join(const std::string& node) {
    const bool begins = now_ == 0;
    if (!begins) ++result_.joins;
    const WorkerId worker(node);
    StageLoad& stage = stages_[protocol::PlaceJoiner(stages_).value];
    stage.replicas.push_back({worker, 1 / stage.cost, begins, {}});
    if (!begins) loading_[worker] = model_.state_load_seconds;
    joined_at_[worker] = begins ? -model_.state_load_seconds : now_;
    least_.Join(node);
  }

  void Decide(BalanceTrigger trigger) {
    model_.changes_per_worker_second = churn_.PerWorkerSecond();
    for (const BalanceOrder& order : protocol::Balance(options_.policy, trigger, stages_, model_)) {
      protocol::Apply(order, &stages_, model_);
      if (order.action == BalanceAction::kFetch) ++result_.fetches;
      if (order.action == BalanceAction::kMove) BeginLoading(order, model_.state_load_seconds);
      if (order.action == BalanceAction::kSwitch) BeginLoading(order, options_.switch_seconds);
    }
  }

  void BeginLoading(const BalanceOrder& order, double seconds) {
    ++result_.moves;
    if (seconds <= 0) return;
    loading_[order.worker] = seconds;
    for (ReplicaLoad& replica : stages_[order.to.value].replicas) {
      if (replica.worker == order.worker) replica.ready = false;
    }
  }

  const Trace& trace_;
  const ReplayOptions& options_;
  protocol::BalanceModel model_;
  LeastMoves least_;
  std::vector<StageLoad> stages_;
  std::map<WorkerId, double> loading_;    // seconds until ready, of those who are not
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
