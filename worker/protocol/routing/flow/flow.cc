#include "worker/protocol/routing/flow/flow.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

// Without it the headers need the library itself.
#define LEMON_ONLY_TEMPLATES
#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

namespace swarm::protocol {
namespace {

// No two computations or transfers take the same time, so microbatches wait for what is nearly
// used up: about three others, where the last quarter of its rate is used.
constexpr double kCalm = 0.75;
constexpr double kWaiting = 3;

// The solver computes in integers.
constexpr double kUnits = 1e6;           // of the highest rate that the stages could have
constexpr double kMicroseconds = 1e6;    // of a second
constexpr double kLongestSeconds = 1e3;  // of one passage: no sum overflows
constexpr double kWidest = 1e3;          // of kUnits: more than can ever pass

/// Seconds that all microbatches together are in the passage at once, `rate` of them a second.
double Occupied(const Passage& passage, double rate) {
  const double crowded = std::max(0.0, rate - kCalm * passage.rate);
  return rate * passage.seconds + crowded * kWaiting / passage.rate;
}

double HighestRate(const FlowGraph& graph) {
  double rate = std::numeric_limits<double>::infinity();
  for (const auto& stage : graph.stages) {
    double sum = 0;
    for (const auto& [place, workers] : stage) sum += workers.rate;
    rate = std::min(rate, sum);
  }
  return rate;
}

/// The graph as the solver wants it: a circulation through a way back that earns more than any way
/// costs.
class Circulation {
 public:
  using Graph = lemon::SmartDigraph;

  /// `unit`: microbatches a second that count as 1.
  explicit Circulation(const FlowGraph& from, double unit) : unit_(unit) {
    const auto source = graph_.addNode(), sink = graph_.addNode();
    std::map<Place, Graph::Node> ends;  // of the stage before
    for (std::size_t s = 0; s < from.stages.size(); ++s) {
      std::map<Place, Graph::Node> begins, next;
      for (const auto& [place, workers] : from.stages[s]) {
        begins[place] = graph_.addNode();
        next[place] = graph_.addNode();
        Add(begins[place], next[place], workers);
      }
      into_.emplace_back();
      if (s == 0) {
        for (const auto& [place, node] : begins) {
          into_[s][{"", place}] = {AddArc(source, node, kWidest * kUnits, 0)};
        }
      } else {
        for (const auto& [way, links] : from.cuts[s - 1]) {
          const auto begin = ends.find(way.first), end = begins.find(way.second);
          if (begin == ends.end() || end == begins.end()) continue;
          into_[s][way] = Add(begin->second, end->second, links);
        }
      }
      ends = std::move(next);
    }
    for (const auto& [place, node] : ends) AddArc(node, sink, kWidest * kUnits, 0);
    // A further microbatch may turn others aside, but passes each node once at most.
    AddArc(sink, source, kWidest * kUnits, -highest_cost_ * graph_.nodeNum() - 1);
  }

  Shares Solve() {
    lemon::NetworkSimplex<Graph, std::int64_t, std::int64_t> solver(graph_);
    solver.upperMap(capacity_).costMap(cost_);
    if (solver.run() != solver.OPTIMAL) return {};
    Shares shares;
    for (const auto& ways : into_) {
      double sum = 0;
      auto& stage = shares.emplace_back();
      for (const auto& [way, arcs] : ways) {
        std::int64_t flow = 0;
        for (const Graph::Arc& arc : arcs) flow += solver.flow(arc);
        if (flow > 0) sum += stage[way] = static_cast<double>(flow);
      }
      if (sum == 0) return {};
      for (auto& [way, share] : stage) share /= sum;
    }
    return shares;
  }

 private:
  /// Two arcs: the second costs the waiting.
  std::vector<Graph::Arc> Add(Graph::Node from, Graph::Node to, const Passage& passage) {
    const double units = std::min(passage.rate / unit_, kWidest * kUnits);
    const double waiting = passage.seconds + kWaiting / passage.rate;
    return {AddArc(from, to, kCalm * units, CostOf(passage.seconds)),
            AddArc(from, to, (1 - kCalm) * units, CostOf(waiting))};
  }
  Graph::Arc AddArc(Graph::Node from, Graph::Node to, double units, std::int64_t cost) {
    const auto arc = graph_.addArc(from, to);
    capacity_[arc] = std::llround(units);
    cost_[arc] = cost;
    highest_cost_ = std::max(highest_cost_, cost);
    return arc;
  }
  static std::int64_t CostOf(double seconds) {
    return std::llround(std::clamp(seconds, 0.0, kLongestSeconds) * kMicroseconds);
  }

  const double unit_;
  Graph graph_;
  Graph::ArcMap<std::int64_t> capacity_{graph_}, cost_{graph_};
  std::int64_t highest_cost_ = 0;
  std::vector<std::map<std::pair<Place, Place>, std::vector<Graph::Arc>>> into_;  // [stage]
};

bool IsNear(const Flow& flow, const Flow& best, double margin) {
  return flow.rate >= (1 - margin) * best.rate && flow.seconds <= (1 + margin) * best.seconds;
}

}  // namespace

Flow SolveFlow(const FlowGraph& graph) {
  const double highest = HighestRate(graph);
  if (!(highest > 0) || !std::isfinite(highest)) return {};
  return JudgeShares(graph, Circulation(graph, highest / kUnits).Solve());
}

Flow JudgeShares(const FlowGraph& graph, Shares shares) {
  Flow flow{std::move(shares), std::numeric_limits<double>::infinity(), 0};
  std::vector<std::pair<Passage, double>> passed;  // with the share that passes
  const auto pass = [&](const auto& passages, const auto& key, double share) {
    const auto found = passages.find(key);
    const Passage passage = found == passages.end() ? Passage{} : found->second;
    flow.rate = std::min(flow.rate, passage.rate / share);
    passed.emplace_back(passage, share);
  };
  if (flow.shares.size() != graph.stages.size()) return {std::move(flow.shares)};
  for (std::size_t s = 0; s < flow.shares.size(); ++s) {
    std::map<Place, double> into;
    for (const auto& [way, share] : flow.shares[s]) {
      into[way.second] += share;
      if (s > 0) pass(graph.cuts[s - 1], way, share);
    }
    for (const auto& [place, share] : into) pass(graph.stages[s], place, share);
  }
  if (!(flow.rate > 0) || passed.empty()) return {std::move(flow.shares)};
  for (const auto& [passage, share] : passed) {
    flow.seconds += Occupied(passage, flow.rate * share) / flow.rate;
  }
  return flow;
}

Shares PlainShares(const FlowGraph& graph) {
  Shares shares;
  std::map<Place, double> before{{"", 1.0}};
  for (const auto& stage : graph.stages) {
    double sum = 0;
    for (const auto& [place, workers] : stage) sum += workers.rate;
    std::map<Place, double> here;
    auto& ways = shares.emplace_back();
    for (const auto& [place, workers] : stage) {
      here[place] = workers.rate / sum;
      for (const auto& [from, part] : before) ways[{from, place}] = part * here[place];
    }
    before = std::move(here);
  }
  return shares;
}

Shares ChooseShares(const FlowGraph& graph, const Shares& current, const Shares& without) {
  Flow best = SolveFlow(graph);
  if (best.rate == 0) return {};
  const Flow plain = JudgeShares(graph, without.empty() ? PlainShares(graph) : without);
  const Flow now = current.empty() ? plain : JudgeShares(graph, current);
  if (IsNear(now, best, kBetter)) return current;
  const bool as_much = plain.rate >= best.rate * (1 - kBetter / 2);
  if (as_much && plain.seconds <= best.seconds * kMuchSlower) return {};
  return std::move(best.shares);
}

}  // namespace swarm::protocol
