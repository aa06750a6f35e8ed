#include "worker/protocol/balance/regions.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "worker/protocol/grid/reduce_grid.h"

namespace swarm::protocol {
namespace {

using balancing::FullRates;
using balancing::RateAt;
using balancing::ReadyCount;
using balancing::Stages;

/// Of a boundary's bytes: by so much what crosses there varies with the measured rates.
constexpr double kShareNoise = 0.02;
/// Of the bytes that cross; what saves less is no reason to move.
constexpr double kMinSaved = 0.05;
/// Throughputs that differ by less are one.
constexpr double kSameRate = 0.02;
/// A bound on the search for exchanges, which takes the square of it.
constexpr std::size_t kPlacesMax = 256;

std::set<std::string> RegionsAt(const StageLoad& stage, bool ready) {
  std::set<std::string> regions;
  for (const ReplicaLoad& replica : stage.replicas) {
    if (!ready || replica.ready) regions.insert(replica.region);
  }
  return regions;
}

bool IsSpread(const StageLoad& stage) { return RegionsAt(stage, false).size() > 1; }

/// All its replicas are in one region, which is not `region`.
bool IsOfOtherRegion(const StageLoad& stage, const std::string& region) {
  const std::set<std::string> regions = RegionsAt(stage, false);
  return regions.size() == 1 && !regions.contains(region);
}

/// Whether the stage, of all its replicas or those that are ready, would be in one region without
/// the replica.
bool WouldBeOne(const StageLoad& stage, const ReplicaLoad& replica, bool ready) {
  if (ready && !replica.ready) return false;
  std::set<std::string> others;
  for (const ReplicaLoad& other : stage.replicas) {
    if (other.worker != replica.worker && (!ready || other.ready)) others.insert(other.region);
  }
  return others.size() == 1 && !others.contains(replica.region);
}

bool MayGoNow(const StageLoad& stage, const ReplicaLoad& replica) {
  return replica.ready && ReadyCount(stage) > 1 && !WouldBeOne(stage, replica, true);
}

struct Best {
  std::optional<balancing::Hop> hop;
  double value = -1;
  void Offer(balancing::Hop candidate, double worth) {
    if (worth <= value) return;
    hop = std::move(candidate);
    value = worth;
  }
};

/// What the weaker of the two stages has after the move.
double Weaker(const Stages& stages, const std::vector<double>& rates, const ReplicaLoad& replica,
              std::size_t from, std::size_t to) {
  return std::min(rates[from] - replica.rate, rates[to] + RateAt(stages, replica, from, to));
}

/// Calls for each worker that its stage can spare: the stage is not in fewer regions without it.
template <typename Call>
void EachSpare(const Stages& stages, const Call& call) {
  for (std::size_t from = 0; from < stages.size(); ++from) {
    if (stages[from].replicas.size() < 2) continue;
    for (const ReplicaLoad& replica : stages[from].replicas) {
      if (!replica.keeps_pods_apart && !WouldBeOne(stages[from], replica, false)) {
        call(from, replica);
      }
    }
  }
}

/// One move by which a stage comes to two regions.
struct OneMove {
  Best now;            ///< of those that can be made
  bool later = false;  ///< there are some that must wait for a worker that is not ready
};

OneMove FindOneMove(const Stages& stages) {
  OneMove found;
  const std::vector<double> rates = FullRates(stages);
  EachSpare(stages, [&](std::size_t from, const ReplicaLoad& replica) {
    for (std::size_t to = 0; to < stages.size(); ++to) {
      if (to == from || !IsOfOtherRegion(stages[to], replica.region)) continue;
      if (!MayGoNow(stages[from], replica)) {
        found.later = true;
        continue;
      }
      found.now.Offer({replica.worker, from, to}, Weaker(stages, rates, replica, from, to));
    }
  });
  return found;
}

/// Whether the stage, which is in two regions, can give a worker of another region than `region`
/// once one of `region` has come.
bool WouldGive(const StageLoad& stage, const std::string& region) {
  const std::set<std::string> regions = RegionsAt(stage, false);
  return regions.size() > 1 && !regions.contains(region);
}

/// Where one move does not help: a worker that its own stage can spare goes to a stage that then
/// can spare another.
Best FindFirstOfTwo(const Stages& stages) {
  Best best;
  const std::vector<double> rates = FullRates(stages);
  EachSpare(stages, [&](std::size_t from, const ReplicaLoad& replica) {
    if (!MayGoNow(stages[from], replica)) return;
    for (std::size_t to = 0; to < stages.size(); ++to) {
      if (to == from || !WouldGive(stages[to], replica.region)) continue;
      best.Offer({replica.worker, from, to}, Weaker(stages, rates, replica, from, to));
    }
  });
  return best;
}

void CarryOut(const balancing::Hop& hop, Stages* stages) {
  balancing::Transfer(stages, hop);
  balancing::FindReplica(&(*stages)[hop.to], hop.worker)->ready = false;
}

/// The rates of the stages by region, and what crosses between regions with them.
class Shares {
 public:
  /// `regions`: all that there are or may come, in order.
  Shares(const Stages& stages, const RegionRule& rule, std::vector<std::string> regions)
      : rule_(rule), regions_(std::move(regions)) {
    for (const StageLoad& stage : stages) {
      rates_.emplace_back(regions_.size(), 0.0);
      counts_.emplace_back(regions_.size(), 0);
      for (const ReplicaLoad& replica : stage.replicas) {
        Add(rates_.size() - 1, Number(replica.region), replica.rate, 1);
      }
    }
  }

  std::size_t Number(const std::string& region) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(regions_, region) - regions_.begin());
  }
  void Add(std::size_t stage, std::size_t region, double rate, int workers) {
    rates_[stage][region] += rate;
    counts_[stage][region] += workers;
  }

  double Bytes() const { return OfRoutes() + OfSums(); }
  double OfRoutes() const {
    double bytes = 0;
    std::optional<std::size_t> before;
    for (std::size_t s = 0; s < rates_.size(); ++s) {
      if (RegionsAt(s) == 0) continue;
      if (before) bytes += rule_.boundary_bytes * PartThatCrosses(*before, s);
      before = s;
    }
    return bytes;
  }
  double OfSums() const {
    double bytes = 0;
    for (std::size_t s = 0; s < rule_.sum_bytes.size(); ++s) {
      if (s >= rates_.size() || RegionsAt(s) == 0) continue;
      bytes += static_cast<double>(LeastCrossings(RegionsAt(s))) * rule_.sum_bytes[s];
    }
    return bytes;
  }

  double Rate(std::size_t stage) const {
    double sum = 0;
    for (const double rate : rates_[stage]) sum += rate;
    return sum;
  }
  double Throughput() const {
    double least = Rate(0);
    for (std::size_t s = 1; s < rates_.size(); ++s) least = std::min(least, Rate(s));
    return least;
  }

 private:
  std::size_t RegionsAt(std::size_t stage) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(counts_[stage], [](int workers) { return workers > 0; }));
  }
  double PartThatCrosses(std::size_t from, std::size_t to) const {
    const double all_from = Rate(from), all_to = Rate(to);
    if (all_from <= 0 || all_to <= 0) return 0;
    double stays = 0;
    for (std::size_t r = 0; r < regions_.size(); ++r) {
      stays += std::min(rates_[from][r] / all_from, rates_[to][r] / all_to);
    }
    return std::max(0.0, 1 - stays);
  }

  const RegionRule& rule_;
  std::vector<std::string> regions_;
  std::vector<std::vector<double>> rates_;  // [stage][region]
  std::vector<std::vector<int>> counts_;
};

/// A worker that may be exchanged, for all of its stage and region.
struct Candidate {
  std::size_t stage = 0;
  std::size_t region = 0;
  const ReplicaLoad* replica = nullptr;
};

std::vector<Candidate> FindCandidates(const Stages& stages, const Shares& shares) {
  std::vector<Candidate> candidates;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    std::set<std::size_t> known;
    for (const ReplicaLoad& replica : stages[s].replicas) {
      if (!replica.ready || replica.keeps_pods_apart) continue;
      const std::size_t region = shares.Number(replica.region);
      if (known.insert(region).second) candidates.push_back({s, region, &replica});
    }
  }
  return candidates;
}

void Put(const Stages& stages, const Candidate& who, std::size_t to, Shares* shares) {
  shares->Add(who.stage, who.region, -who.replica->rate, -1);
  shares->Add(to, who.region, RateAt(stages, *who.replica, who.stage, to), 1);
}

/// What a newcomer would do at each stage: as the others do in the mean.
std::vector<double> RatesOfNewcomer(const Stages& stages) {
  double sum = 0, replicas = 0;
  for (const StageLoad& stage : stages) {
    for (const ReplicaLoad& replica : stage.replicas) {
      sum += replica.rate * stage.cost;
      ++replicas;
    }
  }
  std::vector<double> rates;
  for (const StageLoad& stage : stages) {
    rates.push_back((replicas > 0 && sum > 0 ? sum / replicas : 1) / stage.cost);
  }
  return rates;
}

/// How many stages away the next one is that has workers of the region. If none has, the farther
/// any workers are, the better: between there is room for others of their regions.
double Distance(const Stages& stages, std::size_t from, const std::string& region) {
  std::optional<double> own, other;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const double way = s < from ? static_cast<double>(from - s) : static_cast<double>(s - from);
    for (const ReplicaLoad& replica : stages[s].replicas) {
      std::optional<double>& nearest = replica.region == region ? own : other;
      nearest = std::min(nearest.value_or(way), way);
    }
  }
  return own ? *own : -other.value_or(0);
}

}  // namespace

std::vector<std::string> RegionsOf(const std::vector<StageLoad>& stages) {
  std::set<std::string> regions;
  for (const StageLoad& stage : stages) regions.merge(RegionsAt(stage, false));
  return {regions.begin(), regions.end()};
}

std::size_t CountSpread(const std::vector<StageLoad>& stages) {
  return static_cast<std::size_t>(std::ranges::count_if(stages, IsSpread));
}

// Two regions a stage need two workers of each such stage, one of each other stage, and for each
// such stage a worker that is not of the largest region.
std::size_t MostSpread(const std::vector<StageLoad>& stages) {
  std::map<std::string, std::size_t> of_region;
  std::size_t workers = 0, largest = 0;
  for (const StageLoad& stage : stages) {
    for (const ReplicaLoad& replica : stage.replicas) {
      ++workers;
      largest = std::max(largest, ++of_region[replica.region]);
    }
  }
  if (workers < stages.size()) return 0;
  return std::min({stages.size(), workers - stages.size(), workers - largest});
}

bool KeepsRegionsApart(const StageLoad& stage, const ReplicaLoad& replica) {
  return WouldBeOne(stage, replica, false) || WouldBeOne(stage, replica, true);
}

std::optional<StageIndex> FindToSpread(const std::vector<StageLoad>& stages,
                                       const std::string& region) {
  const std::vector<double> rates = FullRates(stages);
  std::optional<StageIndex> found;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (!IsOfOtherRegion(stages[s], region)) continue;
    if (!found || rates[s] < rates[found->value]) found = StageIndex(s);
  }
  return found;
}

std::vector<RegionMove> SpreadOverRegions(const std::vector<StageLoad>& stages) {
  Stages now = stages;
  std::vector<RegionMove> moves;
  while (CountSpread(now) < MostSpread(now)) {
    const OneMove one = FindOneMove(now);
    if (one.now.hop) {
      const balancing::Hop& hop = *one.now.hop;
      moves.push_back({hop, balancing::Text(hop.to) + " is in one region alone"});
      CarryOut(hop, &now);
      continue;
    }
    if (one.later || !moves.empty()) break;
    if (const Best first = FindFirstOfTwo(now); first.hop) {
      moves.push_back({*first.hop, balancing::Text(first.hop->to) +
                                       " can then give a worker to a stage in one region alone"});
    }
    break;
  }
  return moves;
}

double CrossingBytes(const std::vector<StageLoad>& stages, const RegionRule& rule) {
  return Shares(stages, rule, RegionsOf(stages)).Bytes();
}

StageIndex FindNearest(const std::vector<StageLoad>& stages,
                       const std::vector<StageIndex>& candidates, const std::string& region,
                       const RegionRule& rule) {
  const std::vector<double> rates = FullRates(stages), own = RatesOfNewcomer(stages);
  std::vector<std::string> regions = RegionsOf(stages);
  if (const auto at = std::ranges::lower_bound(regions, region);
      at == regions.end() || *at != region) {
    regions.insert(at, region);
  }
  const Shares now(stages, rule, std::move(regions));
  std::optional<StageIndex> best;
  std::tuple<double, double, double> least;
  for (const StageIndex candidate : candidates) {
    Shares with = now;
    with.Add(candidate.value, with.Number(region), own[candidate.value], 1);
    const std::tuple value = {with.Bytes(), rates[candidate.value],
                              Distance(stages, candidate.value, region)};
    if (best && value >= least) continue;
    best = candidate;
    least = value;
  }
  return *best;
}

std::vector<RegionMove> BringNearer(const std::vector<StageLoad>& stages, const RegionRule& rule) {
  const Shares now(stages, rule, RegionsOf(stages));
  const double bytes = now.Bytes(), throughput = now.Throughput();
  const std::vector<Candidate> candidates = FindCandidates(stages, now);
  if (bytes <= 0 || candidates.size() > kPlacesMax) return {};
  double least = bytes * (1 - kMinSaved);
  std::vector<RegionMove> best;
  const auto offer = [&](const Shares& after, std::vector<RegionMove> moves) {
    if (after.Throughput() < throughput * (1 - kSameRate)) return;
    const double left = after.Bytes();
    const bool by_routes = now.OfRoutes() - after.OfRoutes() > kShareNoise * rule.boundary_bytes;
    const bool by_sums = now.OfSums() - after.OfSums() > kMinSaved * bytes;
    if (left >= least || !(by_routes || by_sums)) return;
    least = left;
    best = std::move(moves);
  };
  const auto may_begin = [&](const Candidate& who) { return ReadyCount(stages[who.stage]) > 1; };
  const auto move = [&](const Candidate& who, std::size_t to) {
    return RegionMove{{who.replica->worker, who.stage, to},
                      "fewer bytes cross between regions with it there"};
  };
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& a = candidates[i];
    for (std::size_t to = 0; to < stages.size(); ++to) {
      if (to == a.stage || !may_begin(a)) continue;
      Shares after = now;
      Put(stages, a, to, &after);
      offer(after, {move(a, to)});
    }
    for (std::size_t j = i + 1; j < candidates.size(); ++j) {
      const Candidate& b = candidates[j];
      if (a.stage == b.stage || a.region == b.region) continue;
      if (!may_begin(a) && !may_begin(b)) continue;
      Shares after = now;
      Put(stages, a, b.stage, &after);
      Put(stages, b, a.stage, &after);
      std::vector<RegionMove> both = {move(a, b.stage), move(b, a.stage)};
      if (!may_begin(a)) std::swap(both[0], both[1]);
      offer(after, std::move(both));
    }
  }
  return best;
}

std::string DescribeOneRegion(const std::vector<StageLoad>& stages) {
  std::string text;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::set<std::string> regions = RegionsAt(stages[s], true);
    if (regions.size() != 1) continue;
    const std::string& region = *regions.begin();
    text += (text.empty() ? "" : ", ") + balancing::Text(s) + " is in " +
            (region.empty() ? "a region without a name" : region) + " alone";
  }
  if (text.empty()) return text;
  std::size_t workers = 0;
  for (const StageLoad& stage : stages) workers += stage.replicas.size();
  const std::size_t regions = RegionsOf(stages).size(), most = MostSpread(stages);
  if (regions == 1) return text + ": all workers are in one region";
  if (most == stages.size()) return text + ": workers are on their way";
  return text + ": with " + std::to_string(workers) + " workers in " + std::to_string(regions) +
         " regions " + std::to_string(most) + " of " + std::to_string(stages.size()) +
         " stages can be in two";
}

}  // namespace swarm::protocol
