#include "worker/protocol/liveness/detector.h"

#include <algorithm>
#include <cmath>

namespace swarm::protocol {
namespace {

/// The silence allowed beyond the period, in units of the lateness. Lost beats have a geometric
/// tail: if each is lost with 5 %, six in a row are rarer than one in 10^6 worker-seconds, and the
/// lateness is about 0.1 s.
constexpr double kMargin = 20;
/// Weight of a beat later than the estimate. One lost beat must lift the allowance at once, since
/// the next gap may be the long one.
constexpr double kRise = 1.0 / 8;
/// Weight of any other beat: at 4 Hz a spell is forgotten over some minutes.
constexpr double kFall = 1.0 / 512;
/// How many beats the first assumption, that beats are as late as `limit` allows, counts for.
constexpr double kPriorBeats = 16;
/// That a trainer gets on one connection from each of its workers, all together.
constexpr double kBeatsPerSecond = 250;

}  // namespace

Duration HeartbeatPeriod(std::size_t members) {
  if (members == 0) return std::chrono::seconds(1);
  const Duration period = DetectorOptions{}.period;
  const double times =
      std::ceil(static_cast<double>(members) / kBeatsPerSecond / ToSeconds(period));
  return std::max(1L, static_cast<long>(times)) * period;
}

FailureDetector::FailureDetector(DetectorOptions options) : options_(options) {}

Duration FailureDetector::Advance(Timepoint now) {
  if (!started_) {
    started_ = true;
    last_call_ = now;
  }
  if (now <= last_call_) return time_;
  const Duration gap = now - last_call_;
  time_ += gap > options_.watcher_pause ? options_.tick : gap;
  last_call_ = now;
  return time_;
}

void FailureDetector::Watch(const WorkerId& worker, Timepoint now, Duration first) {
  const double unknown = ToSeconds(options_.limit - options_.period) / kMargin;
  watched_[worker] = {.heard = Advance(now),
                      .period = std::clamp(first, options_.period, kPeriodMax),
                      .mean_square = unknown * unknown,
                      .beats = 0};
}

void FailureDetector::Forget(const WorkerId& worker) { watched_.erase(worker); }

void FailureDetector::OnBeat(const WorkerId& worker, Timepoint now, Duration next) {
  const Duration time = Advance(now);
  const auto found = watched_.find(worker);
  if (found == watched_.end()) return;
  Watched& watched = found->second;
  const double late = std::max(0.0, ToSeconds(time - watched.heard - watched.period));
  const double square = late * late;
  const double first = 1 / (static_cast<double>(++watched.beats) + kPriorBeats);
  const double weight = square > watched.mean_square ? kRise : std::max(kFall, first);
  watched.mean_square += weight * (square - watched.mean_square);
  watched.heard = time;
  watched.period = std::clamp(next, options_.period, kPeriodMax);
}

std::vector<WorkerId> FailureDetector::Suspects(Timepoint now) {
  const Duration time = Advance(now);
  std::vector<WorkerId> suspects;
  for (const auto& [worker, watched] : watched_) {
    if (time - watched.heard >= Allowed(watched)) suspects.push_back(worker);
  }
  return suspects;
}

Timepoint FailureDetector::NextDeadline() const {
  Duration wait = options_.tick;
  for (const auto& [worker, watched] : watched_) {
    const Duration left = watched.heard + Allowed(watched) - time_;
    // A worker that is suspected already gives no reason to ask again at once.
    if (left > Duration::zero()) wait = std::min(wait, left);
  }
  return last_call_ + wait;
}

Duration FailureDetector::Allowed(const WorkerId& worker) const {
  const auto found = watched_.find(worker);
  return found == watched_.end() ? options_.limit : Allowed(found->second);
}

Duration FailureDetector::Allowed(const Watched& watched) const {
  const Duration allowed = watched.period + FromSeconds(kMargin * std::sqrt(watched.mean_square));
  const Duration longer = watched.period - options_.period;
  return std::clamp(allowed, options_.floor + longer, options_.limit + longer);
}

}  // namespace swarm::protocol
