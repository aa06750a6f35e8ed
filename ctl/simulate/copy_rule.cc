#include "ctl/simulate/copy_rule.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/status.h"
#include "worker/protocol/balance/event_rule.h"

namespace swarm::ctl {

using protocol::ReplicaLoad;
using protocol::StageIndex;
using protocol::StageLoad;
using protocol::WorkerId;
using protocol::balancing::FindReplica;
using protocol::balancing::FullRates;
using protocol::balancing::Hop;
using protocol::balancing::ReadyRates;
using protocol::balancing::Stages;
using protocol::balancing::Text;

namespace {

constexpr double kRounding = 1e-9;
constexpr int kMostRounds = 8;

/// A rule: keep `copies` copies of each stage that could not bear `departures` departures.
struct Cover {
  int departures = 0;
  int copies = 0;
};
/// In the order of their worth: machines often depart by twos and threes.
constexpr Cover kCovers[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};

/// Decides the orders of one event. `now_` is the swarm with the orders so far carried out;
/// `future_` is its prediction.
class CopyRule {
 public:
  CopyRule(const CopySwarm& swarm, const CopyModel& model) : model_(model), now_(swarm) {}

  std::vector<CopyOrder> Decide() {
    // Each order changes the worth of others: the rule repeats until it has nothing to add.
    const double least = Prediction() * (1 - kRounding);
    for (int round = 0; round < kMostRounds; ++round) {
      const CopySwarm before = now_;
      const std::size_t mark = orders_.size();
      SwitchWhatPays();
      if (Prediction() <= 0) {
        for (const CopyOrder& order : FillEmptied(now_, model_)) Order(order);
      }
      future_ = Predict(now_, model_);
      Repair();
      while (DropWhatCosts()) {
      }
      KeepCopies();
      // The drag of copies is judged for one order at a time. Together they may cost more.
      if (Prediction() < least) {
        now_ = before;
        orders_.resize(mark);
      }
      if (orders_.size() == mark) break;
    }
    return std::move(orders_);
  }

 private:
  /// The worker as it is now; null if it serves another stage now, before a switch.
  const ReplicaLoad* Serving(const WorkerId& worker, std::size_t stage) const {
    return FindReplica(now_.stages[stage], worker);
  }

  void Order(CopyOrder order) {
    Apply(order, &now_, model_);
    orders_.push_back(std::move(order));
  }

  double Prediction() const { return PredictedThroughput(now_, model_); }

  /// Gives the order unless the upkeep of copies would then slow the job by more than
  /// `most_overload`.
  bool TryOrder(CopyOrder order, double most_overload) {
    CopySwarm after = now_;
    Apply(order, &after, model_);
    CopySwarm future = Predict(after, model_);
    if (Overload(future) > most_overload) return false;
    now_ = std::move(after);
    future_ = std::move(future);
    orders_.push_back(std::move(order));
    return true;
  }

  void SwitchWhatPays() {
    const double prediction = Prediction();
    const std::vector<double> rates = ReadyRates(now_.stages);
    CopySwarm after = now_;
    const std::vector<Hop> hops = SwitchAll(&after, model_);
    if (PredictedThroughput(after, model_) < prediction * (1 - kRounding)) return;
    for (const Hop& hop : hops) {
      Order({CopyAction::kSwitch, hop.worker, StageIndex(hop.from), StageIndex(hop.to),
             Text(hop.to) + " has " + Text(rates[hop.to]) + ", " + Text(hop.from) + " " +
                 Text(rates[hop.from]) + "; the state is there"});
    }
  }

  /// Prefers a worker that has the state or is fetching it, then a ready one, then the one with the
  /// fewest copies.
  double RankFor(const ReplicaLoad& replica, std::size_t to) const {
    constexpr double kMore = 1e6;  // than any number of copies
    const double fetched = now_.Find(replica.worker, to) != nullptr ? 2 * kMore : 0;
    const double ready = replica.ready ? kMore : 0;
    return fetched + ready - static_cast<double>(now_.Of(replica.worker).size());
  }

  /// Transfers as long as that raises the predicted throughput, if it is worth the loading.
  void Repair() {
    const std::vector<Hop> hops = protocol::balancing::FindTransfers(
        now_.stages, future_.stages, model_.balance,
        [this](const ReplicaLoad& replica, std::size_t to) { return RankFor(replica, to); });
    if (hops.empty()) return;
    const CopySwarm saved = now_;
    const std::size_t mark = orders_.size();
    const double before = Bound(future_);
    const std::vector<double> rates = FullRates(future_.stages);
    for (const Hop& hop : hops) {
      OrderTransfer(hop, protocol::balancing::ReasonToTransfer(hop, rates));
    }
    // The worker that moves may have been part of the foreseen switches: the new prediction counts.
    const double after = Prediction();
    if (!protocol::balancing::Rises(before, after, model_.balance) ||
        protocol::balancing::Empties(saved.stages, now_.stages) ||
        !Pays(hops, after - before, saved.stages)) {
      now_ = saved;
      orders_.resize(mark);
    }
    future_ = Predict(now_, model_);
  }

  /// The loading costs the donors' effort and the movers' former work.
  bool Pays(const std::vector<Hop>& hops, double gain, const Stages& before) const {
    protocol::balancing::Worth worth;
    worth.gain = gain;
    worth.lost = std::max(0.0, protocol::Throughput(before) - protocol::Throughput(now_.stages));
    for (const Hop& hop : hops) {
      worth.lost += FindReplica(before[hop.from], hop.worker)->rate * model_.copy_drag;
    }
    return protocol::balancing::Pays(hops, worth, before, model_.balance);
  }

  void OrderTransfer(const Hop& hop, const std::string& reason) {
    if (now_.Find(hop.worker, hop.to) != nullptr) return;  // switches when the others can
    const StageIndex from(hop.from);
    const StageIndex to(hop.to);
    if (model_.copies_per_worker == 0 || !Serving(hop.worker, hop.from)->ready) {
      Order({CopyAction::kMove, hop.worker, from, to, reason});
      return;
    }
    const std::vector<Copy>& copies = now_.Of(hop.worker);
    if (copies.size() >= static_cast<std::size_t>(model_.copies_per_worker)) {
      Order({CopyAction::kDrop, hop.worker, from, copies.front().stage,
             "makes room for the state of " + Text(hop.to)});
    }
    Order({CopyAction::kFetch, hop.worker, from, to, reason});
  }

  /// The throughput without drag.
  static double Bound(const CopySwarm& swarm) {
    return protocol::PredictedThroughput(swarm.stages);
  }

  /// By how much a stage is above the bound, with the drag of its copies.
  double Slack(const CopySwarm& swarm, std::size_t stage) const {
    double rate = 0;
    for (const ReplicaLoad& replica : swarm.stages[stage].replicas) {
      rate += replica.rate - Drag(swarm, replica, model_);
    }
    return rate - Bound(swarm) * (1 - kRounding);
  }

  /// By how much copies hold stages below the bound, added up.
  double Overload(const CopySwarm& swarm) const {
    double overload = 0;
    for (std::size_t s = 0; s < swarm.stages.size(); ++s) {
      overload += std::max(0.0, -Slack(swarm, s));
    }
    return overload;
  }

  /// Drops a copy that slows the bottleneck: it costs throughput all the time, and serves against a
  /// departure that may never come. Returns whether it dropped one.
  bool DropWhatCosts() {
    for (std::size_t s = 0; s < future_.stages.size(); ++s) {
      if (Slack(future_, s) >= 0) continue;
      for (const ReplicaLoad& replica : future_.stages[s].replicas) {
        // A worker that the prediction switches drops the copy after its switch.
        if (Serving(replica.worker, s) == nullptr) continue;
        const double less = Overload(future_) * (1 - kRounding) - kRounding;
        for (const Copy& copy : now_.Of(replica.worker)) {
          if (TryOrder({CopyAction::kDrop, replica.worker, StageIndex(s), copy.stage,
                        "its upkeep would slow " + Text(s) + ", which limits the job"},
                       less)) {
            return true;
          }
        }
      }
    }
    return false;
  }

  /// Copies of every stage that could not bear a departure or two, on workers of stages that have
  /// more than the job can use.
  void KeepCopies() {
    for (const Cover& cover : kCovers) {
      for (std::size_t s = 0; s < future_.stages.size(); ++s) {
        if (CopiesOf(s) >= cover.copies || Bears(s, cover.departures)) continue;
        const std::optional<Hop> keeper = FindKeeper(s);
        if (!keeper) continue;
        TryOrder({CopyAction::kFetch, keeper->worker, StageIndex(keeper->from), StageIndex(s),
                  Text(s) + " cannot bear " +
                      (cover.departures == 1 ? "a departure" : "two departures") + ", " +
                      Text(keeper->from) + " can spare the upkeep of a copy"},
                 Overload(future_));
      }
    }
  }

  int CopiesOf(std::size_t wanted) const {
    int copies = 0;
    for (const auto& [worker, held] : future_.copies) {
      if (future_.Find(worker, wanted) != nullptr) ++copies;
    }
    return copies;
  }

  bool Bears(std::size_t stage, int departures) const {
    double rate = 0;
    double largest = 0;
    for (const ReplicaLoad& replica : future_.stages[stage].replicas) {
      rate += replica.rate;
      largest = std::max(largest, replica.rate);
    }
    return rate - departures * largest >= Bound(future_) * (1 - kRounding);
  }

  /// The worker with the fewest copies, in the stage with most to spare, that can afford another.
  std::optional<Hop> FindKeeper(std::size_t wanted) const {
    std::optional<Hop> best;
    std::pair<double, double> best_value;
    for (std::size_t s = 0; s < future_.stages.size(); ++s) {
      if (s == wanted) continue;
      const double slack = Slack(future_, s);
      for (const ReplicaLoad& replica : future_.stages[s].replicas) {
        const ReplicaLoad* here = Serving(replica.worker, s);
        if (here == nullptr || !here->ready || now_.Find(replica.worker, wanted)) continue;
        const auto copies = static_cast<int>(now_.Of(replica.worker).size());
        if (copies >= model_.copies_per_worker) continue;
        if (slack < replica.rate * model_.copy_drag) continue;
        const std::pair value = {-static_cast<double>(copies), slack};
        if (best && value <= best_value) continue;
        best = Hop{replica.worker, s, wanted};
        best_value = value;
      }
    }
    return best;
  }

  const CopyModel& model_;
  CopySwarm now_;
  CopySwarm future_;
  std::vector<CopyOrder> orders_;
};

/// Whether a worker is fetching the state of the stage.
bool IsFetched(const CopySwarm& swarm, std::size_t stage) {
  return std::any_of(swarm.copies.begin(), swarm.copies.end(), [&](const auto& entry) {
    return swarm.Find(entry.first, stage) != nullptr && !swarm.Holds(entry.first, stage);
  });
}

/// Whether another stage without replicas counts on the worker.
bool IsAwaited(const CopySwarm& swarm, const WorkerId& worker) {
  const std::vector<Copy>& copies = swarm.Of(worker);
  return std::any_of(copies.begin(), copies.end(), [&](const Copy& copy) {
    return swarm.stages[copy.stage.value].replicas.empty();
  });
}

}  // namespace

std::vector<CopyOrder> DecideWithCopies(const CopySwarm& swarm, const CopyModel& model) {
  SWARM_CHECK(!swarm.stages.empty(), "a swarm has stages");
  return CopyRule(swarm, model).Decide();
}

std::vector<CopyOrder> FillEmptied(const CopySwarm& swarm, const CopyModel& model) {
  using protocol::balancing::BestToFill;
  CopySwarm now = swarm;
  std::vector<CopyOrder> orders;
  for (std::size_t to = 0; to < now.stages.size(); ++to) {
    if (!now.stages[to].replicas.empty()) continue;
    std::optional<Hop> hop = BestToFill(now.stages, to, [&](const ReplicaLoad& replica) {
      return replica.ready && now.Holds(replica.worker, to);
    });
    const CopyAction action = hop ? CopyAction::kSwitch : CopyAction::kMove;
    if (!hop && !IsFetched(now, to)) {
      hop = BestToFill(now.stages, to,
                       [&](const ReplicaLoad& replica) { return !IsAwaited(now, replica.worker); });
    }
    if (!hop) continue;
    orders.push_back({action, hop->worker, StageIndex(hop->from), StageIndex(to),
                      protocol::balancing::ReasonToFill(now.stages, *hop)});
    Apply(orders.back(), &now, model);
  }
  return orders;
}

}  // namespace swarm::ctl
