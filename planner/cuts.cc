#include "planner/cuts.h"

#include <algorithm>
#include <limits>

namespace swarm::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

std::optional<std::vector<Run>> CutModel(const ModelCosts& model, std::span<const double> speeds,
                                         std::span<const std::uint64_t> allowed,
                                         const std::function<bool(std::size_t, Run)>& fits) {
  // Places where a run may begin or end; only the first and the last place are not cuts.
  std::vector<std::uint64_t> places = {0};
  if (allowed.empty()) {
    for (std::uint64_t layer = 1; layer < model.layers(); ++layer) places.push_back(layer);
  } else {
    places.insert(places.end(), allowed.begin(), allowed.end());
  }
  places.push_back(model.layers());
  const std::size_t stages = speeds.size(), ends = places.size();
  if (stages == 0 || stages >= ends) return std::nullopt;
  // best[e]: the longest time of the stages so far, if they end at place e.
  std::vector<double> best(ends, kNever);
  best[0] = 0;
  std::vector<std::vector<std::size_t>> from(stages, std::vector<std::size_t>(ends, 0));
  for (std::size_t s = 0; s < stages; ++s) {
    std::vector<double> next(ends, kNever);
    for (std::size_t e = s + 1; e < ends; ++e) {
      // A longer run takes longer: none that begins earlier is better then.
      for (std::size_t begin = e; begin-- > s;) {
        const Run run{places[begin], places[e] - places[begin]};
        const double time = model.Flops(run) / speeds[s];
        if (time >= next[e] || !fits(s, run)) break;
        const double longest = std::max(best[begin], time);
        if (longest >= next[e]) continue;
        next[e] = longest;
        from[s][e] = begin;
      }
    }
    best = std::move(next);
  }
  if (best[ends - 1] == kNever) return std::nullopt;
  std::vector<Run> runs(stages);
  for (std::size_t s = stages, e = ends - 1; s-- > 0; e = from[s][e]) {
    const std::size_t begin = from[s][e];
    runs[s] = {places[begin], places[e] - places[begin]};
  }
  return runs;
}

}  // namespace swarm::planner
