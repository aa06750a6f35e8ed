#include "ctl/simulate/fleet/progress.h"

#include <algorithm>
#include <map>

namespace swarm::ctl {
namespace {

constexpr std::size_t kPoints = 240;

/// The part of the stay that lies between the two times, in seconds.
double Overlap(const Stay& stay, double begin, double end) {
  return std::max(0.0, std::min(stay.end, end) - std::max(stay.begin, begin));
}

/// The mean of AssignedTokensPerSecond between the two times.
double MeanAssigned(const Fleet& fleet, const std::vector<Stay>& stays, double begin, double end) {
  std::map<double, std::vector<std::int64_t>> changes;  // time -> change of each group's count
  const auto add = [&](double at, std::size_t group, std::int64_t change) {
    if (at >= end) return;
    auto& change_of = changes[std::max(at, begin)];
    change_of.resize(fleet.groups.size());
    change_of[group] += change;
  };
  for (const Stay& stay : stays) {
    add(stay.begin, stay.group, 1);
    add(stay.end, stay.group, -1);
  }
  double sum = 0;
  std::vector<std::uint64_t> counts(fleet.groups.size(), 0);
  for (auto at = changes.begin(); at != changes.end(); ++at) {
    for (std::size_t g = 0; g < counts.size(); ++g) {
      counts[g] = static_cast<std::uint64_t>(static_cast<std::int64_t>(counts[g]) + at->second[g]);
    }
    const double until = std::next(at) == changes.end() ? end : std::next(at)->first;
    sum += AssignedTokensPerSecond(fleet, counts) * (until - at->first);
  }
  return end > begin ? sum / (end - begin) : 0;
}

}  // namespace

void Progress::OnStep(protocol::Step step, double seconds) {
  commits_.resize(step.value);
  commits_.push_back(seconds);
}

void Progress::OnRolledBack(protocol::Version version) {
  commits_.resize(std::min<std::size_t>(commits_.size(), version.value));
}

FleetResult Progress::Summarize(const Fleet& fleet, const std::vector<Stay>& stays, double warm_up,
                                double end) const {
  FleetResult result;
  result.seconds = end - warm_up;
  SetRate(fleet, warm_up, end, &result);
  if (result.seconds > 0) {
    for (const Stay& stay : stays) {
      const double share = Overlap(stay, warm_up, end) / result.seconds;
      result.workers += share;
      result.ideal_tokens_per_second +=
          share * IdealTokensPerSecond(fleet.job, fleet.groups[stay.group]);
    }
  }
  result.assigned_tokens_per_second = MeanAssigned(fleet, stays, warm_up, end);
  DrawTimeline(fleet, stays, end, &result);
  return result;
}

/// From one commit to another, so that no part of a step is counted or missed. If the last step is
/// later than the mean, its time counts.
void Progress::SetRate(const Fleet& fleet, double warm_up, double end, FleetResult* result) const {
  const auto first = std::ranges::lower_bound(commits_, warm_up);
  result->steps = static_cast<std::uint64_t>(commits_.end() - first);
  if (result->steps < 2) return;
  const double steps = static_cast<double>(result->steps - 1);
  double seconds = commits_.back() - *first;
  if (end - commits_.back() > seconds / steps) seconds = end - *first;
  result->tokens_per_second = steps * fleet.job.StepTokens() / seconds;
}

void Progress::DrawTimeline(const Fleet& fleet, const std::vector<Stay>& stays, double end,
                            FleetResult* result) const {
  if (end <= 0) return;
  const double width = end / kPoints;
  auto& points = result->timeline;
  points.resize(kPoints);
  /// Spreads an amount evenly over a time.
  const auto spread = [&](double from, double to, double amount,
                          double FleetResult::Point::* into) {
    const double last = std::min(to, end);
    for (std::size_t i = static_cast<std::size_t>(from / width); i < kPoints; ++i) {
      const double begin = width * static_cast<double>(i);
      if (begin >= last) break;
      const double part = std::min(last, begin + width) - std::max(from, begin);
      points[i].*into += amount * part / ((to - from) * width);
    }
  };
  for (std::size_t i = 0; i < kPoints; ++i) {
    points[i].seconds = width * (static_cast<double>(i) + 0.5);
  }
  for (const Stay& stay : stays) {
    const double last = std::min(stay.end, end);
    if (last > stay.begin) {
      spread(stay.begin, last, last - stay.begin, &FleetResult::Point::workers);
    }
  }
  double before = 0;
  for (const double commit : commits_) {
    if (commit > before) {
      spread(before, commit, fleet.job.StepTokens(), &FleetResult::Point::tokens_per_second);
    }
    before = commit;
  }
}

}  // namespace swarm::ctl
