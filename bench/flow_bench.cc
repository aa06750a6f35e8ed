// Measures what routes that follow measured links bring (docs/protocol.md, rule 29), in virtual
// time: unlike devices in several regions, with the real router and its in-flight limits.
//
//   plain   weighted round robin, which knows devices and nothing of links
//   greedy  from each worker to the nearest one of the next stage that has room
//   flow    the shares of the min-cost flow
//
// For each: microbatches a second as a part of what the devices could do without links, seconds on
// links for a microbatch (as if nothing waited), and seconds from its draw until it is back. Then
// it times the choice of shares and the draws. Deterministic, but for these times.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "worker/protocol/routing/link_table.h"
#include "worker/protocol/routing/router.h"

namespace swarm::protocol {
namespace {

constexpr std::array kRegions{"Virginia", "Frankfurt", "Tokyo",  "Oregon", "Sydney",
                              "Ireland",  "Singapore", "London", "Ohio",   "Seoul"};
/// Round trips in ms and Gb/s between regions of AWS: the figures of Yuan et al., "Decentralized
/// Training of Foundation Models in Heterogeneous Environments" (arXiv 2206.01288), from
/// scheduler/generate_sim_com_matrices.py of github.com/DS3Lab/DT-FM.
struct Measured {
  const char *a, *b;
  double ms, gbps;
};
constexpr Measured kMeasured[] = {
    {"Oregon", "Virginia", 67, 0.79},      {"Oregon", "Ohio", 49, 1.10},
    {"Oregon", "Tokyo", 96, 0.523},        {"Oregon", "Seoul", 124, 0.46},
    {"Oregon", "Singapore", 163, 0.341},   {"Oregon", "Sydney", 139, 0.36},
    {"Oregon", "London", 136, 0.42},       {"Oregon", "Frankfurt", 143, 0.404},
    {"Oregon", "Ireland", 124, 0.482},     {"Virginia", "Ohio", 11, 1.12},
    {"Virginia", "Tokyo", 143, 0.524},     {"Virginia", "Seoul", 172, 0.500},
    {"Virginia", "Singapore", 230, 0.364}, {"Virginia", "Sydney", 197, 0.383},
    {"Virginia", "London", 76, 1.16},      {"Virginia", "Frankfurt", 90, 1.02},
    {"Virginia", "Ireland", 67, 1.05},     {"Ohio", "Tokyo", 130, 0.694},
    {"Ohio", "Seoul", 159, 0.529},         {"Ohio", "Singapore", 197, 0.452},
    {"Ohio", "Sydney", 185, 0.484},        {"Ohio", "London", 86, 1.05},
    {"Ohio", "Frankfurt", 99, 0.799},      {"Ohio", "Ireland", 77, 1.14},
    {"Tokyo", "Seoul", 34, 1.10},          {"Tokyo", "Singapore", 73, 1.01},
    {"Tokyo", "Sydney", 100, 0.761},       {"Tokyo", "London", 210, 0.366},
    {"Tokyo", "Frankfurt", 223, 0.36},     {"Tokyo", "Ireland", 199, 0.465},
    {"Seoul", "Singapore", 74, 1.14},      {"Seoul", "Sydney", 148, 0.58},
    {"Seoul", "London", 238, 0.342},       {"Seoul", "Frankfurt", 235, 0.358},
    {"Seoul", "Ireland", 228, 0.335},      {"Singapore", "Sydney", 92, 0.816},
    {"Singapore", "London", 169, 0.500},   {"Singapore", "Frankfurt", 155, 0.535},
    {"Singapore", "Ireland", 179, 0.492},  {"Sydney", "London", 262, 0.326},
    {"Sydney", "Frankfurt", 265, 0.328},   {"Sydney", "Ireland", 254, 0.344},
    {"London", "Frankfurt", 14, 1.14},     {"London", "Ireland", 12, 1.09},
    {"Frankfurt", "Ireland", 24, 1.08},
};

/// Within a region: 1 ms and 5 Gb/s, an assumption.
Link LinkBetween(const std::string& a, const std::string& b) {
  if (a == b) return {1e-3, 5e9 / 8};
  for (const Measured& m : kMeasured) {
    if ((a == m.a && b == m.b) || (a == m.b && b == m.a)) return {m.ms * 1e-3, m.gbps * 1e9 / 8};
  }
  std::printf("no figures for %s and %s\n", a.c_str(), b.c_str());
  std::exit(1);
}

struct Swarm {
  std::vector<std::vector<PlacedWorker>> stages;
  double bytes = 0;  // of a microbatch at each boundary, in each direction
};

/// Devices of four kinds, the fastest four times as fast as the slowest.
Swarm MakeSwarm(std::size_t regions, std::size_t replicas, double seconds, double bytes,
                unsigned seed) {
  std::mt19937 random(seed);
  Swarm swarm{.bytes = bytes};
  for (std::size_t s = 0; s < 4; ++s) {
    auto& stage = swarm.stages.emplace_back();
    for (std::size_t i = 0; i < replicas; ++i) {
      const double slowness = std::array{1.0, 1.5, 2.5, 4.0}[random() % 4];
      const WorkerId id(std::to_string(s) + "/" + std::to_string(i));
      stage.push_back({id, kRegions[random() % regions], slowness * seconds});
    }
  }
  return swarm;
}

struct Result {
  double rate = 0, on_links = 0, stay = 0;
};

enum class Rule { kPlain, kGreedy, kFlow };

/// The swarm in virtual time. Each pair of workers has a wire of its own in each direction. A
/// worker does one thing at a time, backwards first. No two computations take the same time.
class Run {
 public:
  Run(const Swarm& swarm, Rule rule) : swarm_(swarm), rule_(rule), router_(1, swarm.stages.size()) {
    std::vector<std::vector<WorkerId>> replicas;
    Ways::Places places;
    for (const auto& stage : swarm.stages) {
      auto& ids = replicas.emplace_back();
      for (const PlacedWorker& worker : stage) {
        ids.push_back(worker.id);
        workers_[worker.id].is = worker;
        places[worker.id] = worker.place;
      }
    }
    router_.SetReplicas(replicas);
    if (rule == Rule::kFlow) router_.SetShares(ChooseShares(Graph(swarm), {}), places);
  }

  static FlowGraph Graph(const Swarm& swarm) {
    LinkTable links;
    for (const auto& stage : swarm.stages) {
      for (const PlacedWorker& a : stage) {
        for (const auto& other : swarm.stages) {
          for (const PlacedWorker& b : other) {
            links.Update(a.id, a.place, b.place, LinkBetween(a.place, b.place));
          }
        }
      }
    }
    return BuildGraph(
        swarm.stages, links,
        std::vector<BoundaryBytes>(swarm.stages.size() - 1, {swarm.bytes, swarm.bytes}),
        [](std::uint64_t, const Place&, const Place&) { return 0; });
  }

  /// Counts what begins and ends in the second half of the time.
  Result Measure(double seconds) {
    Issue(0);
    Result result;
    double done = 0, begun = 0;
    while (!agenda_.empty() && agenda_.begin()->first <= seconds) {
      const auto [at, event] = *agenda_.begin();
      agenda_.erase(agenda_.begin());
      if (auto back = Do(at, event); back && at > seconds / 2) {
        ++done;
        if (back->drawn <= seconds / 2) continue;
        ++begun;
        result.stay += at - back->drawn;
        for (std::size_t s = 0; s + 1 < back->route.size(); ++s) {
          const Link link = Between(back->route[s], back->route[s + 1]);
          result.on_links += link.round_trip + 2 * swarm_.bytes / link.bytes_per_second;
        }
      }
    }
    return {done / (seconds / 2), result.on_links / begun, result.stay / begun};
  }

 private:
  struct Microbatch {
    std::vector<WorkerId> route;
    double drawn = 0;
  };
  struct Event {
    std::size_t microbatch;
    std::size_t stage;
    bool backward, done;
  };
  struct Worker {
    PlacedWorker is;
    bool busy = false;
    std::set<std::tuple<bool, std::size_t>> waiting;  // backwards first, then the oldest
    std::uint64_t in_flight = 0;                      // as the greedy rule counts
    double forward_seconds = 0;
  };

  Link Between(const WorkerId& a, const WorkerId& b) const {
    return LinkBetween(workers_.at(a).is.place, workers_.at(b).is.place);
  }

  std::optional<std::vector<WorkerId>> Draw() {
    if (rule_ != Rule::kGreedy) return router_.Draw();
    std::vector<WorkerId> route;
    for (const auto& stage : swarm_.stages) {
      std::optional<std::tuple<double, double, WorkerId>> best;
      for (const PlacedWorker& next : stage) {
        const double load = static_cast<double>(workers_.at(next.id).in_flight) /
                            static_cast<double>(router_.limit(next.id));
        if (load >= 1) continue;
        const double way = route.empty() ? 0 : Between(route.back(), next.id).round_trip;
        const std::tuple candidate(way, load, next.id);
        if (!best || candidate < *best) best = candidate;
      }
      if (!best) return std::nullopt;
      route.push_back(std::get<WorkerId>(*best));
    }
    for (const WorkerId& id : route) ++workers_.at(id).in_flight;
    return route;
  }

  void Issue(double now) {
    while (auto route = Draw()) {
      microbatches_.push_back({*std::move(route), now});
      agenda_.emplace(now, Event{microbatches_.size() - 1, 0, false, false});
    }
  }

  void Send(double now, const WorkerId& from, const WorkerId& to, const Event& event) {
    const Link link = Between(from, to);
    double& free_at = wires_[{from, to}];
    free_at = std::max(free_at, now) + swarm_.bytes / link.bytes_per_second;
    agenda_.emplace(free_at + link.round_trip / 2, event);
  }

  void StartNext(double now, Worker& worker) {
    if (worker.busy || worker.waiting.empty()) return;
    const auto [forward, microbatch] = *worker.waiting.begin();
    worker.waiting.erase(worker.waiting.begin());
    worker.busy = true;
    const double part = forward ? 1.0 / 3 : 2.0 / 3;
    const double seconds =
        worker.is.seconds * part * std::uniform_real_distribution(0.9, 1.1)(random_);
    const auto& route = microbatches_[microbatch].route;
    const auto stage = std::find(route.begin(), route.end(), worker.is.id) - route.begin();
    agenda_.emplace(now + seconds,
                    Event{microbatch, static_cast<std::size_t>(stage), !forward, true});
    if (forward) {
      router_.MeasureForward(worker.is.id, seconds);
    } else {
      router_.MeasureBackward(worker.is.id, seconds);
    }
  }

  /// The microbatch that is back, if one is.
  const Microbatch* Do(double now, Event event) {
    const Microbatch& microbatch = microbatches_[event.microbatch];
    const std::size_t s = event.stage, last = swarm_.stages.size() - 1;
    const WorkerId& id = microbatch.route[s];
    Worker& worker = workers_.at(id);
    if (!event.done) {
      worker.waiting.emplace(!event.backward, event.microbatch);
      StartNext(now, worker);
      return nullptr;
    }
    worker.busy = false;
    event.done = false;
    if (!event.backward && s < last) {
      Send(now, id, microbatch.route[s + 1], {event.microbatch, s + 1, false, false});
    } else if (!event.backward) {
      worker.waiting.emplace(false, event.microbatch);
    } else {
      router_.MeasureStay(id, now - microbatch.drawn);
      router_.Release(id);
      --worker.in_flight;
      if (s > 0) Send(now, id, microbatch.route[s - 1], {event.microbatch, s - 1, true, false});
    }
    StartNext(now, worker);
    const bool back = event.backward && s == 0;
    if (event.backward) Issue(now);
    return back ? &microbatches_[event.microbatch] : nullptr;
  }

  const Swarm& swarm_;
  const Rule rule_;
  Router router_;
  std::map<WorkerId, Worker> workers_;
  std::vector<Microbatch> microbatches_;
  std::map<std::pair<WorkerId, WorkerId>, double> wires_;
  std::multimap<double, Event> agenda_;
  std::mt19937 random_{7};
};

void Compare(std::size_t regions, std::size_t replicas, double seconds, double bytes,
             double lasts) {
  std::printf("%zu regions, 4 x %zu workers of %.0f to %.0f ms, %.2g MB a boundary:\n", regions,
              replicas, seconds * 1e3, 4e3 * seconds, bytes / 1e6);
  std::map<Rule, Result> mean;
  constexpr int kSwarms = 3;
  for (unsigned seed = 1; seed <= kSwarms; ++seed) {
    const Swarm swarm = MakeSwarm(regions, replicas, seconds, bytes, seed);
    double optimum = 1e300;
    for (const auto& stage : swarm.stages) {
      double rate = 0;
      for (const PlacedWorker& worker : stage) rate += 1 / worker.seconds;
      optimum = std::min(optimum, rate);
    }
    for (const Rule rule : {Rule::kPlain, Rule::kGreedy, Rule::kFlow}) {
      const Result result = Run(swarm, rule).Measure(lasts);
      mean[rule].rate += result.rate / optimum / kSwarms;
      mean[rule].on_links += result.on_links / kSwarms;
      mean[rule].stay += result.stay / kSwarms;
    }
  }
  const std::map<Rule, const char*> names{
      {Rule::kPlain, "plain"}, {Rule::kGreedy, "greedy"}, {Rule::kFlow, "flow"}};
  for (const auto& [rule, result] : mean) {
    std::printf("  %-7s rate %.3f   on links %.3f s (%.2f of plain)   stay %.3f s (%.2f)\n",
                names.at(rule), result.rate, result.on_links,
                result.on_links / mean[Rule::kPlain].on_links, result.stay,
                result.stay / mean[Rule::kPlain].stay);
  }
}

/// Microseconds of a draw, with what follows from it until the microbatch is done.
double TimeDraws(const Swarm& swarm, const Shares& shares) {
  Router router(1, swarm.stages.size());
  std::vector<std::vector<WorkerId>> replicas;
  Ways::Places places;
  for (const auto& stage : swarm.stages) {
    auto& ids = replicas.emplace_back();
    for (const PlacedWorker& worker : stage) {
      ids.push_back(worker.id);
      places[worker.id] = worker.place;
    }
  }
  router.SetReplicas(replicas);
  router.SetShares(shares, places);
  constexpr int kDraws = 20'000;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kDraws; ++i) {
    const auto route = router.Draw();
    for (const WorkerId& worker : *route) router.Release(worker);
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count() / kDraws;
}

void Time(std::size_t replicas, bool by_region) {
  Swarm swarm = MakeSwarm(kRegions.size(), replicas, 0.064, 1e6, 1);
  FlowGraph graph = Run::Graph(swarm);
  if (!by_region) {
    LinkTable links;
    std::map<Place, std::string> regions;
    for (auto& stage : swarm.stages) {
      for (PlacedWorker& worker : stage) {
        regions[worker.id.value] = std::exchange(worker.place, worker.id.value);
      }
    }
    for (const auto& [a, region] : regions) {
      for (const auto& [b, other] : regions) {
        links.Update(WorkerId(a), a, b, LinkBetween(region, other));
      }
    }
    graph = BuildGraph(swarm.stages, links, std::vector<BoundaryBytes>(3, {1e6, 1e6}),
                       [](std::uint64_t, const Place&, const Place&) { return 0; });
  }
  const auto begin = std::chrono::steady_clock::now();
  const Shares shares = ChooseShares(graph, {});
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::size_t ways = 0, used = 0;
  for (const auto& cut : graph.cuts) ways += cut.size();
  for (const auto& stage : shares) used += stage.size();
  std::printf(
      "  %zu workers, a place is a %s: %zu links, %zu shares, chosen in %.1f ms; a draw: %.1f us, "
      "plain %.1f us\n",
      4 * replicas, by_region ? "region" : "worker", ways, used, took.count(),
      TimeDraws(swarm, shares), TimeDraws(swarm, {}));
}

}  // namespace
}  // namespace swarm::protocol

/// Argument: the seconds of each run in virtual time (default 60).
int main(int argc, char** argv) {
  using namespace swarm::protocol;
  const double lasts = argc > 1 ? std::atof(argv[1]) : 60;
  for (const std::size_t regions : {2, 4, 10}) Compare(regions, 12, 0.064, 1e6, lasts);
  for (const std::size_t regions : {2, 4, 10}) Compare(regions, 12, 0.016, 8e6, lasts);
  std::printf("Time on this machine:\n");
  Time(16, false);
  Time(250, true);
  if (argc <= 1) Time(250, false);
  return 0;
}
