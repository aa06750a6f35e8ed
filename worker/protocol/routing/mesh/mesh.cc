#include "worker/protocol/routing/mesh/mesh.h"

#include <algorithm>
#include <bit>

#include "base/rng.h"
#include "worker/protocol/routing/lanes/lanes.h"

namespace swarm::protocol {
namespace {

/// Who owns each of `slots` (a power of two): all about as many. Each worker in turn takes the next
/// free slot in an order of its own, as in Maglev's table (Eisenbud et al., NSDI 2016, section
/// 3.4), so a worker that comes or goes moves few slots of the others.
std::vector<std::size_t> OwnersOf(const std::vector<WorkerId>& workers, std::uint64_t slots,
                                  std::uint64_t role) {
  struct Turn {
    std::uint64_t at, skip;
  };
  std::vector<Turn> turns;
  for (const WorkerId& worker : workers) {
    const std::uint64_t key = MixName(role, worker.value);
    // Odd steps lead through all slots.
    turns.push_back({key & (slots - 1), (Mix(key) | 1) & (slots - 1)});
  }
  const std::size_t none = workers.size();
  std::vector<std::size_t> owners(slots, none);
  for (std::uint64_t taken = 0; taken < slots; ++taken) {
    Turn& turn = turns[taken % workers.size()];
    while (owners[turn.at] != none) turn.at = (turn.at + turn.skip) & (slots - 1);
    owners[turn.at] = taken % workers.size();
  }
  return owners;
}

}  // namespace

Neighbourhood DrawNeighbourhood(const std::vector<WorkerId>& lower,
                                const std::vector<WorkerId>& upper, const MeshOptions& options) {
  if (std::min(lower.size(), upper.size()) <= options.degree) return {};
  const std::uint64_t slots = std::bit_ceil(options.degree * std::max(lower.size(), upper.size()));
  const auto below = OwnersOf(lower, slots, 0), above = OwnersOf(upper, slots, 1);
  Neighbourhood neighbours;
  for (std::uint64_t slot = 0; slot < slots; ++slot) {
    neighbours[lower[below[slot]]].push_back(upper[above[slot]]);
    neighbours[upper[above[slot]]].push_back(lower[below[slot]]);
  }
  const auto seated = [](const std::vector<WorkerId>& workers) {
    std::vector<Lanes::Stop> stops;
    for (WorkerId& id : SeatInLanes(workers)) stops.push_back({std::move(id)});
    return stops;
  };
  for (const auto& [route, share] : Lanes({seated(lower), seated(upper)}).All()) {
    neighbours[route[0]].push_back(route[1]);
    neighbours[route[1]].push_back(route[0]);
  }
  for (auto& [worker, others] : neighbours) {
    std::ranges::sort(others);
    const auto again = std::ranges::unique(others);
    others.erase(again.begin(), again.end());
  }
  return neighbours;
}

Mesh::Mesh(const std::vector<std::vector<WorkerId>>& stages, const MeshOptions& options) {
  std::uint64_t members = 0;
  for (const auto& stage : stages) members += stage.size();
  if (members <= options.all_up_to) return;
  for (std::size_t s = 0; s + 1 < stages.size(); ++s) {
    cuts_.push_back(DrawNeighbourhood(stages[s], stages[s + 1], options));
  }
}

const std::vector<WorkerId>* Mesh::Find(std::size_t cut, const WorkerId& worker) const {
  if (cut >= cuts_.size()) return nullptr;
  const auto neighbours = cuts_[cut].find(worker);
  return neighbours == cuts_[cut].end() ? nullptr : &neighbours->second;
}

const std::vector<WorkerId>* Mesh::After(std::uint64_t stage, const WorkerId& before) const {
  return stage == 0 ? nullptr : Find(stage - 1, before);
}

const std::vector<WorkerId>* Mesh::Before(std::uint64_t stage, const WorkerId& after) const {
  return Find(stage, after);
}

}  // namespace swarm::protocol
