#include "worker/protocol/balance/event_rule.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "worker/protocol/balance/swarm_rule.h"

namespace swarm::protocol::balancing {
namespace {

constexpr double kLongestHoldSeconds = 3600;  // no gain is counted on for longer
constexpr double kRounding = 1e-9;
constexpr int kMostRounds = 8;

/// So many copies of a stage that could not bear so many losses.
struct Cover {
  int losses = 0;
  int copies = 0;
};
/// In the order of their worth: machines are often lost by twos and threes.
constexpr Cover kCovers[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};

/// Decides the orders of one event. `now_` is the swarm with the orders so far carried out;
/// `future_` what it will be when all under way has arrived.
class EventRule {
 public:
  EventRule(const Stages& stages, const BalanceModel& model) : model_(model), now_(stages) {}

  std::vector<BalanceOrder> Decide() {
    // Each order changes what others are worth: until nothing is left to be said.
    std::size_t said = 0;
    for (int round = 0; round < kMostRounds; ++round) {
      Switch();
      if (Prediction() <= 0) {
        for (const BalanceOrder& order : FillEmptied(now_, model_)) Order(order);
      }
      future_ = Predict(now_, model_);
      Repair();
      while (DropWhatCosts()) {
      }
      KeepCopies();
      if (orders_.size() == said) break;
      said = orders_.size();
    }
    return std::move(orders_);
  }

 private:
  /// Whether the worker serves the stage now, and still will.
  const ReplicaLoad* Serving(const WorkerId& worker, std::size_t stage) {
    return FindReplica(now_[stage], worker);
  }

  void Order(BalanceOrder order) {
    Apply(order, &now_, model_);
    orders_.push_back(std::move(order));
  }

  double Prediction() const { return PredictedThroughput(now_, model_); }

  /// Gives the order unless the prediction would fall, or the upkeep of copies slow the job by more
  /// than `most_overload`.
  bool TryOrder(BalanceOrder order, double most_overload) {
    const Stages before = now_;
    Apply(order, &now_, model_);
    Stages future = Predict(now_, model_);
    const bool lower = Bound(future) < Bound(future_) * (1 - kRounding);
    if (lower || Overload(future) > most_overload) {
      now_ = before;
      return false;
    }
    future_ = std::move(future);
    orders_.push_back(std::move(order));
    return true;
  }

  void Switch() {
    const double prediction = Prediction();
    const std::vector<double> rates = ReadyRates(now_);
    Stages after = now_;
    const std::vector<Hop> hops = SwitchAll(&after, model_);
    if (PredictedThroughput(after, model_) < prediction * (1 - kRounding)) return;
    for (const Hop& hop : hops) {
      Order({BalanceAction::kSwitch, hop.worker, StageIndex(hop.from), StageIndex(hop.to),
             Text(hop.to) + " has " + Text(rates[hop.to]) + ", " + Text(hop.from) + " " +
                 Text(rates[hop.from]) + "; the state is there"});
    }
  }

  /// The transfer that makes the better of the future's slowest stage, if one does.
  std::optional<Hop> BestTransfer(const std::vector<double>& rates, const Stages& future) {
    const std::size_t slowest = Least(rates);
    std::optional<Hop> best;
    std::tuple<double, bool, bool, double> best_value;
    for (std::size_t from = 0; from < future.size(); ++from) {
      if (from == slowest) continue;
      for (const ReplicaLoad& replica : future[from].replicas) {
        const ReplicaLoad* here = Serving(replica.worker, from);
        if (here == nullptr) continue;
        const double value = std::min(rates[from] - replica.rate,
                                      rates[slowest] + RateAt(future, replica, from, slowest));
        if (!Rises(rates[slowest], value, model_)) continue;
        const std::tuple<double, bool, bool, double> full_value = {
            value, FindCopy(*here, slowest) != nullptr, here->ready,
            -static_cast<double>(replica.copies.size())};
        if (best && full_value <= best_value) continue;
        best = Hop{replica.worker, from, slowest};
        best_value = full_value;
      }
    }
    return best;
  }

  /// Transfers as long as that raises the predicted throughput, if it is worth the loading.
  void Repair() {
    Stages trial = future_;
    std::vector<Hop> tried;
    std::size_t taken = 0;
    const double before = Prediction();
    double best = before;
    std::set<WorkerId> moved;
    for (std::size_t round = 0; round < future_.size() * 8; ++round) {
      const std::optional<Hop> hop = BestTransfer(FullRates(trial), trial);
      if (!hop || !moved.insert(hop->worker).second) break;
      Transfer(&trial, *hop);
      tried.push_back(*hop);
      const double now = Minimum(FullRates(trial));
      if (!Rises(best, now, model_)) continue;
      best = now;
      taken = tried.size();
    }
    tried.resize(taken);
    if (tried.empty()) return;
    const Stages saved = now_;
    const std::size_t mark = orders_.size();
    const std::vector<double> rates = FullRates(future_);
    for (const Hop& hop : tried) {
      OrderTransfer(hop, Text(hop.to) + " would limit the job at " + Text(rates[hop.to]) + ", " +
                             Text(hop.from) + " has " + Text(rates[hop.from]));
    }
    // Who moves may have been part of the switches foreseen: what counts is the new prediction.
    const double after = Prediction();
    if (!Rises(before, after, model_) || Empties(saved) || !Pays(tried, after - before, saved)) {
      now_ = saved;
      orders_.resize(mark);
    }
    future_ = Predict(now_, model_);
  }

  /// Whether a stage that had a ready replica has none any more.
  bool Empties(const Stages& before) const {
    for (std::size_t s = 0; s < before.size(); ++s) {
      if (ReadyCount(before[s]) > 0 && ReadyCount(now_[s]) == 0) return true;
    }
    return false;
  }

  /// What is gained until one of the stages concerned changes again, against what is lost while the
  /// state is on its way: the donors' effort, and what the movers did before.
  bool Pays(const std::vector<Hop>& hops, double gain, const Stages& before) const {
    const double churn = model_.changes_per_worker_second;
    double lost = std::max(0.0, Minimum(ReadyRates(before)) - Minimum(ReadyRates(now_)));
    double hold = kLongestHoldSeconds;
    for (const Hop& hop : hops) {
      const std::size_t concerned =
          before[hop.from].replicas.size() + before[hop.to].replicas.size();
      if (churn > 0) hold = std::min(hold, 1 / (churn * static_cast<double>(concerned)));
      lost += FindReplica(before[hop.from], hop.worker)->rate * model_.copy_drag;
    }
    const double arrives = std::exp(-churn * model_.state_load_seconds);
    return gain * hold * arrives > lost * model_.state_load_seconds;
  }

  void OrderTransfer(const Hop& hop, const std::string& reason) {
    const ReplicaLoad& replica = *Serving(hop.worker, hop.from);
    if (FindCopy(replica, hop.to) != nullptr) return;  // switches when the others can
    const StageIndex from(hop.from);
    const StageIndex to(hop.to);
    if (model_.copies_per_worker == 0 || !replica.ready) {
      Order({BalanceAction::kMove, hop.worker, from, to, reason});
      return;
    }
    if (replica.copies.size() >= static_cast<std::size_t>(model_.copies_per_worker)) {
      Order({BalanceAction::kDrop, hop.worker, from, replica.copies.front().stage,
             "makes room for the state of " + Text(hop.to)});
    }
    Order({BalanceAction::kFetch, hop.worker, from, to, reason});
  }

  /// What the pipeline gives without drag.
  static double Bound(const Stages& stages) { return Minimum(FullRates(stages)); }

  /// How much more than the bound a stage gives.
  double Slack(const Stages& stages, std::size_t stage) const {
    double rate = 0;
    for (const ReplicaLoad& replica : stages[stage].replicas) {
      rate += replica.rate - Drag(replica, model_);
    }
    return rate - Bound(stages) * (1 - kRounding);
  }

  /// By how much copies hold stages below the bound, added up.
  double Overload(const Stages& stages) const {
    double overload = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      overload += std::max(0.0, -Slack(stages, s));
    }
    return overload;
  }

  /// A copy that slows the slowest stage costs throughput all the time, against a loss that may
  /// come: it goes.
  bool DropWhatCosts() {
    for (std::size_t s = 0; s < future_.size(); ++s) {
      if (Slack(future_, s) >= 0) continue;
      for (const ReplicaLoad& replica : future_[s].replicas) {
        // One who will have switched by then drops it when that is done.
        const ReplicaLoad* here = Serving(replica.worker, s);
        if (here == nullptr) continue;
        for (const Copy& copy : std::vector<Copy>(here->copies)) {
          const double less = Overload(future_) * (1 - kRounding) - kRounding;
          if (TryOrder({BalanceAction::kDrop, replica.worker, StageIndex(s), copy.stage,
                        "its upkeep would slow " + Text(s) + ", which limits the job"},
                       less)) {
            return true;
          }
        }
      }
    }
    return false;
  }

  /// Copies of every stage that could not bear a loss or two, on workers of stages that
  /// have more than the job can use.
  void KeepCopies() {
    for (const Cover& cover : kCovers) {
      for (std::size_t s = 0; s < future_.size(); ++s) {
        if (CopiesOf(s) >= cover.copies || BearsLosses(s, cover.losses)) continue;
        const std::optional<Hop> keeper = FindKeeper(s);
        if (!keeper) continue;
        TryOrder({BalanceAction::kFetch, keeper->worker, StageIndex(keeper->from), StageIndex(s),
                  Text(s) + " cannot bear " + (cover.losses == 1 ? "a loss" : "two losses") + ", " +
                      Text(keeper->from) + " can spare the upkeep of a copy"},
                 Overload(future_));
      }
    }
  }

  int CopiesOf(std::size_t wanted) const {
    int copies = 0;
    for (const StageLoad& stage : future_) {
      for (const ReplicaLoad& replica : stage.replicas) {
        if (FindCopy(replica, wanted) != nullptr) ++copies;
      }
    }
    return copies;
  }

  bool BearsLosses(std::size_t stage, int losses) const {
    double rate = 0;
    double largest = 0;
    for (const ReplicaLoad& replica : future_[stage].replicas) {
      rate += replica.rate;
      largest = std::max(largest, replica.rate);
    }
    return rate - losses * largest >= Bound(future_) * (1 - kRounding);
  }

  /// The worker with the fewest copies, in the stage with most to spare, that can afford another.
  std::optional<Hop> FindKeeper(std::size_t wanted) {
    std::optional<Hop> best;
    std::pair<double, double> best_value;
    for (std::size_t s = 0; s < future_.size(); ++s) {
      if (s == wanted) continue;
      const double slack = Slack(future_, s);
      for (const ReplicaLoad& replica : future_[s].replicas) {
        const ReplicaLoad* here = Serving(replica.worker, s);
        if (here == nullptr || !here->ready || FindCopy(*here, wanted) != nullptr) continue;
        if (static_cast<int>(here->copies.size()) >= model_.copies_per_worker) continue;
        if (slack < replica.rate * model_.copy_drag) continue;
        const std::pair value = {-static_cast<double>(replica.copies.size()), slack};
        if (best && value <= best_value) continue;
        best = Hop{replica.worker, s, wanted};
        best_value = value;
      }
    }
    return best;
  }

  const BalanceModel& model_;
  Stages now_;
  Stages future_;
  std::vector<BalanceOrder> orders_;
};

}  // namespace

std::vector<BalanceOrder> DecideAtChange(const std::vector<StageLoad>& stages,
                                         const BalanceModel& model) {
  return EventRule(stages, model).Decide();
}

}  // namespace swarm::protocol::balancing
