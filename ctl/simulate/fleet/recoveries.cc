#include "ctl/simulate/fleet/recoveries.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace swarm::ctl {

double RecoveryTimes::Mean() const {
  return seconds.empty() ? 0
                         : std::accumulate(seconds.begin(), seconds.end(), 0.0) /
                               static_cast<double>(seconds.size());
}

double RecoveryTimes::Quantile(double share) const {
  if (seconds.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(seconds.size()));
  return seconds[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

void Recoveries::OnLost(const std::set<Cell>& cells, Timepoint now) {
  if (cells.empty()) return;
  ++times_.losses;
  const auto loss = std::make_shared<Loss>(now, cells.size());
  for (const Cell& cell : cells) missing_.emplace(cell, loss);
}

void Recoveries::Settle(Loss& loss, Timepoint now) {
  if (--loss.missing == 0) times_.seconds.push_back(ToSeconds(now - loss.since));
}

void Recoveries::OnFolded(const Cell& cell, Timepoint now) {
  const auto [begin, end] = missing_.equal_range(cell);
  for (auto at = begin; at != end; ++at) Settle(*at->second, now);
  missing_.erase(begin, end);
}

void Recoveries::OnCommitted(protocol::Generation generation, protocol::Step step, Timepoint now) {
  auto at = missing_.lower_bound({generation, step, {}, {}});
  while (at != missing_.end() && at->first.generation == generation && at->first.step == step) {
    Settle(*at->second, now);
    at = missing_.erase(at);
  }
}

void Recoveries::OnRolledBack() {
  std::set<const Loss*> losses;
  for (const auto& [cell, loss] : missing_) losses.insert(loss.get());
  times_.rolled_back += losses.size();
  missing_.clear();
}

RecoveryTimes Recoveries::Times() const {
  RecoveryTimes times = times_;
  std::ranges::sort(times.seconds);
  times.open = times.losses - times.rolled_back - times.seconds.size();
  return times;
}

}  // namespace swarm::ctl
