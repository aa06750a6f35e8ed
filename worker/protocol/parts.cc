#include "worker/protocol/parts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

namespace swarm::protocol {
namespace {

/// The part of all sizes that changes its holder in one step for no other reason than to make all
/// loads alike. A joiner that took its whole share at once would hold up one step for long.
constexpr std::uint64_t kMovedShare = 8;

class Choice {
 public:
  Choice(const std::vector<std::uint64_t>& sizes, const std::vector<std::set<WorkerId>>& now,
         const std::vector<WorkerId>& replicas)
      : sizes_(sizes), now_(now), replicas_(replicas), held_(sizes.size()), by_size_(sizes.size()) {
    for (const WorkerId& id : replicas_) loads_[id] = 0;
    std::iota(by_size_.begin(), by_size_.end(), std::size_t{0});
    std::ranges::stable_sort(by_size_, std::ranges::greater(),
                             [&](std::size_t p) { return sizes_[p]; });
  }

  void KeepAndFill() {
    const std::size_t wanted = std::min<std::size_t>(2, replicas_.size());
    std::vector<std::vector<WorkerId>> stay(sizes_.size());
    for (std::size_t p = 0; p < sizes_.size(); ++p) {
      std::ranges::set_intersection(now_[p], replicas_, std::back_inserter(stay[p]));
      if (stay[p].size() > wanted) continue;
      for (const WorkerId& id : stay[p]) Add(p, id);
    }
    for (const std::size_t p : by_size_) {
      if (held_[p].empty() && stay[p].empty()) {
        Add(p, *now_[p].begin());  // it leaves: whoever comes beside it gets the moments from it
        Add(p, *Lightest(replicas_, p));
      }
      while (held_[p].size() < wanted)
        Add(p, *Lightest(stay[p].size() > wanted ? stay[p] : replicas_, p));
    }
  }

  void Level() {
    const std::uint64_t all = std::accumulate(sizes_.begin(), sizes_.end(), std::uint64_t{0});
    std::uint64_t moved = 0;
    for (;;) {
      const auto by_load = [&](const WorkerId& id) { return loads_.at(id); };
      const WorkerId& heavy = *std::ranges::max_element(replicas_, {}, by_load);
      const WorkerId& light = *std::ranges::min_element(replicas_, {}, by_load);
      const std::uint64_t room =
          moved == 0 ? all : all / kMovedShare - std::min(moved, all / kMovedShare);
      const auto part = FindToMove(heavy, light, room);
      if (!part) return;
      std::ranges::replace(held_[*part], heavy, light);
      loads_[heavy] -= sizes_[*part];
      loads_[light] += sizes_[*part];
      if (!now_[*part].contains(light)) moved += sizes_[*part];
    }
  }

  std::vector<PartHolders> Result() const {
    std::vector<PartHolders> result(sizes_.size());
    std::map<WorkerId, std::uint64_t> loads;  // of the first holders
    for (const std::size_t p : by_size_) {
      std::vector<WorkerId> two = held_[p];
      std::ranges::sort(two, {}, [&](const WorkerId& id) { return std::pair(loads[id], id); });
      result[p] = {two.front(), two.size() > 1 ? two[1] : WorkerId()};
      loads[two.front()] += sizes_[p];
    }
    return result;
  }

 private:
  bool Holds(std::size_t p, const WorkerId& id) const {
    return std::ranges::find(held_[p], id) != held_[p].end();
  }

  void Add(std::size_t p, const WorkerId& id) {
    held_[p].push_back(id);
    loads_[id] += sizes_[p];
  }

  const WorkerId* Lightest(const std::vector<WorkerId>& among, std::size_t p) const {
    const WorkerId* lightest = nullptr;
    for (const WorkerId& id : among) {
      if (Holds(p, id)) continue;
      if (lightest == nullptr || loads_.at(id) < loads_.at(*lightest)) lightest = &id;
    }
    return lightest;
  }

  /// The part that would make the two most alike. None: no part would make them more alike.
  std::optional<std::size_t> FindToMove(const WorkerId& heavy, const WorkerId& light,
                                        std::uint64_t room) const {
    const std::uint64_t gap = loads_.at(heavy) - loads_.at(light);
    const auto rest = [&](std::size_t p) {
      return 2 * sizes_[p] > gap ? 2 * sizes_[p] - gap : gap - 2 * sizes_[p];
    };
    std::optional<std::size_t> best;
    for (std::size_t p = 0; p < sizes_.size(); ++p) {
      if (sizes_[p] >= gap || !Holds(p, heavy) || Holds(p, light) || held_[p].size() < 2) continue;
      const WorkerId& other = held_[p][held_[p].front() == heavy ? 1 : 0];
      if (!now_[p].contains(other)) continue;
      if (!now_[p].contains(light) && sizes_[p] > room) continue;
      if (!best || rest(p) < rest(*best)) best = p;
    }
    return best;
  }

  const std::vector<std::uint64_t>& sizes_;
  const std::vector<std::set<WorkerId>>& now_;
  const std::vector<WorkerId>& replicas_;
  std::vector<std::vector<WorkerId>> held_;
  std::vector<std::size_t> by_size_;  // parts, the largest first
  std::map<WorkerId, std::uint64_t> loads_;
};

const PartDigest* FindPart(const std::map<WorkerId, Reduced>& reports, const WorkerId& holder,
                           std::uint64_t part) {
  const auto report = reports.find(holder);
  if (report == reports.end()) return nullptr;
  const auto found = std::ranges::find(report->second.parts, part,
                                       [](const PartDigest& d) { return d.name.part; });
  return found == report->second.parts.end() ? nullptr : &*found;
}

}  // namespace

std::vector<PartHolders> ChooseHolders(const std::vector<std::uint64_t>& sizes,
                                       const std::vector<std::set<WorkerId>>& now,
                                       const std::vector<WorkerId>& replicas) {
  Choice choice(sizes, now, replicas);
  choice.KeepAndFill();
  choice.Level();
  return choice.Result();
}

Digest CombineDigests(const std::vector<Digest>& parts) {
  std::vector<std::byte> bytes(parts.size() * sizeof(Digest));
  if (!parts.empty()) std::memcpy(bytes.data(), parts.data(), bytes.size());
  return ComputeDigest(bytes);
}

std::vector<std::uint64_t> FindDifferentParts(const std::vector<PartHolders>& holders,
                                              const std::map<WorkerId, Reduced>& reports) {
  std::vector<std::uint64_t> different;
  for (std::uint64_t p = 0; p < holders.size(); ++p) {
    const PartDigest* first = FindPart(reports, holders[p].first, p);
    const PartDigest* second =
        holders[p].second.empty() ? first : FindPart(reports, holders[p].second, p);
    if (first == nullptr || second == nullptr || first->digest != second->digest) {
      different.push_back(p);
    }
  }
  return different;
}

GroupReport CombineReports(GroupResult result, const std::vector<PartHolders>& holders,
                           const std::map<WorkerId, Reduced>& reports) {
  std::vector<Digest> digests;
  for (std::uint64_t p = 0; p < holders.size(); ++p) {
    const PartDigest& part = *FindPart(reports, holders[p].first, p);
    digests.push_back(part.digest);
    result.magnitude_bits.push_back(part.magnitude_bits);
  }
  result.digest = CombineDigests(digests);
  result.holders = holders;
  std::map<std::string, double> norms;
  for (const auto& [id, report] : reports) {
    for (const TensorNorm& norm : report.norms) {
      // Of a participant that has folded something that is not finite, the word counts.
      double& squared = norms.try_emplace(norm.tensor, norm.squared).first->second;
      if (!std::isfinite(norm.squared)) squared = norm.squared;
    }
  }
  GroupReport report{std::move(result), {}};
  for (const auto& [tensor, squared] : norms) report.norms.push_back({tensor, squared});
  return report;
}

}  // namespace swarm::protocol
