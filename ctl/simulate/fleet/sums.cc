#include "ctl/simulate/fleet/sums.h"

#include <algorithm>
#include <utility>

namespace swarm::ctl {

using protocol::WorkerId;

namespace {

/// Chunks of a reduce (GroupReduce::kChunkBytes).
constexpr double kChunkBytes = 1024 * 1024;

std::size_t SeatOf(const WorkerId& worker, const std::vector<WorkerId>& seated) {
  return static_cast<std::size_t>(std::ranges::find(seated, worker) - seated.begin());
}

}  // namespace

Sums::Sums(EventQueue* queue, FlowNetwork* network, const Links* links, TrafficCounts* traffic,
           FindRegion find_region)
    : queue_(*queue),
      network_(*network),
      links_(*links),
      traffic_(*traffic),
      find_region_(std::move(find_region)) {}

void Sums::Begin(const protocol::Reduce& reduce, Part part) {
  if (reduce.participants.size() == 1) return queue_.After(Duration::zero(), std::move(part.done));
  const Name name = NameOf(reduce);
  const protocol::ReduceGrid grid(reduce.participants.size(), reduce.rows, reduce.regions);
  const auto [at, is_first] = rounds_.try_emplace(name, Round{grid, {}, {}, {}, 0});
  Round& round = at->second;
  if (is_first) {
    round.seated = reduce.participants;
    for (const WorkerId& p : reduce.participants) round.regions.insert(find_region_(p));
  }
  const std::size_t seat = SeatOf(part.worker, round.seated);
  const auto peers = static_cast<double>(grid.PeersOf(seat).size());
  const Region own = find_region_(part.worker);
  const WorkerId worker = part.worker;
  Running& running = round.running[worker];
  running.part = std::move(part);
  running.bytes = static_cast<double>(grid.PiecesSent(seat)) / static_cast<double>(grid.pieces()) *
                  running.part.bytes;
  running.flow = network_.Start({.from = running.part.node,
                                 .to = running.part.node,
                                 .bytes = running.bytes,
                                 .weight = peers,
                                 .rate_max = RateMax(round, seat, own),
                                 .done = [this, name, worker](double) { OnSent(name, worker); }});
}

double Sums::RateMax(const Round& round, std::size_t seat, Region own) const {
  const protocol::ReduceGrid& grid = round.grid;
  double across = kUnlimited, all = kUnlimited;
  for (const Region region : round.regions) {
    const double rate = links_.RateMax(own, region);
    all = std::min(all, rate);
    if (region != own) across = std::min(across, rate);
  }
  const protocol::ReduceGrid::Load load = grid.LoadOf(seat);
  const auto number = static_cast<double>(load.peers);
  if (grid.regions() == 1) return number * all;
  const auto far = static_cast<double>(load.peers_across);
  const double sent = load.sent, sent_far = load.across;
  // Both kinds go at once: the one that takes longer decides.
  double rate = kUnlimited;
  if (far < number) {
    rate = std::min(rate, links_.RateMax(own, own) * (number - far) * sent / (sent - sent_far));
  }
  if (far > 0) rate = std::min(rate, across * far * sent / sent_far);
  return rate;
}

void Sums::OnSent(const Name& name, const WorkerId& worker) {
  const auto round = rounds_.find(name);
  Running& running = round->second.running.at(worker);
  traffic_.Add(Traffic::kReduce, running.bytes);
  running.sent = true;
  ++round->second.sent;
  FinishIfSent(round);
}

void Sums::FinishIfSent(Rounds::iterator at) {
  Round& round = at->second;
  if (round.sent < round.grid.participants()) return;
  const Duration delay = Delay(round);
  for (auto& [worker, running] : round.running) queue_.After(delay, std::move(running.part.done));
  rounds_.erase(at);
}

Duration Sums::Delay(const Round& round) const {
  Duration longest{}, within{};
  for (const Region from : round.regions) {
    within = std::max(within, links_.OneWay(from, from));
    for (const Region to : round.regions) longest = std::max(longest, links_.OneWay(from, to));
  }
  const protocol::ReduceGrid::Ways ways = round.grid.ways();
  if (round.grid.regions() == 1) return ways.within * longest;
  return ways.across * longest + ways.within * within;
}

Sums::Rounds::iterator Sums::Leave(Rounds::iterator at, const WorkerId& worker) {
  Round& round = at->second;
  if (const auto running = round.running.extract(worker); !running.empty()) {
    const double left = network_.Left(running.mapped().flow);
    network_.Cancel(running.mapped().flow);
    if (running.mapped().sent) {
      --round.sent;
    } else {
      traffic_.Add(Traffic::kReduce, running.mapped().bytes - left);
    }
  }
  return round.running.empty() ? rounds_.erase(at) : std::next(at);
}

void Sums::Stop(const WorkerId& worker, protocol::Generation generation, protocol::Step step) {
  auto round = rounds_.lower_bound({generation, step, {}, {}});
  while (round != rounds_.end() && std::get<0>(round->first) == generation &&
         std::get<1>(round->first) == step) {
    round = Leave(round, worker);
  }
}

void Sums::Remove(const WorkerId& worker) {
  for (auto round = rounds_.begin(); round != rounds_.end();) round = Leave(round, worker);
}

std::optional<protocol::Awaiting> Sums::Describe(const WorkerId& worker,
                                                 const protocol::Reduce& reduce) {
  const auto at = rounds_.find(NameOf(reduce));
  if (at == rounds_.end() || !at->second.running.contains(worker)) return std::nullopt;
  Round& round = at->second;
  const Running& own = round.running.at(worker);
  protocol::Awaiting awaiting{reduce.generation, reduce.step, reduce.group, reduce.k};
  // Half of what a worker receives are the contributions to its shard.
  awaiting.chunks = static_cast<std::uint64_t>((own.bytes - network_.Left(own.flow)) / kChunkBytes);
  const auto began = [&](std::size_t seat) { return round.running.contains(round.seated[seat]); };
  const protocol::ReduceGrid& grid = round.grid;
  const auto row_began = [&](std::size_t row) {
    for (std::size_t i = 0; i < grid.RowSize(row); ++i) {
      if (!began(grid.SeatAt(row, i))) return false;
    }
    return true;
  };
  const auto region_began = [&](std::size_t region) {
    return std::ranges::all_of(grid.RowsOf(region), row_began);
  };
  // A contribution of the own row, or else a partial sum of another, which waits for its row, or
  // else the sum of another region.
  const std::size_t seat = SeatOf(worker, round.seated);
  const bool all_began = round.running.size() == grid.participants();
  if (!all_began) {
    const bool own_began = row_began(grid.RowOf(seat));
    const bool own_region_began = region_began(grid.RegionOf(seat));
    const auto waits_for = [&](std::size_t peer) {
      if (grid.RowOf(peer) == grid.RowOf(seat)) return !began(peer);
      if (grid.RegionOf(peer) == grid.RegionOf(seat)) {
        return own_began && !row_began(grid.RowOf(peer));
      }
      return own_region_began && !region_began(grid.RegionOf(peer));
    };
    for (const std::size_t peer : grid.PeersOf(seat)) {
      if (waits_for(peer)) awaiting.from.push_back(round.seated[peer]);
    }
  }
  if (!awaiting.from.empty() || !own.sent) return awaiting;
  for (const auto& [id, running] : round.running) {
    if (!running.sent) awaiting.from.push_back(id);
  }
  return awaiting;
}

}  // namespace swarm::ctl
