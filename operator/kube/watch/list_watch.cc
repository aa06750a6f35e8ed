#include "operator/kube/watch/list_watch.h"

#include <algorithm>

namespace swarm::kube {
namespace {

constexpr Duration kHealthy =
    std::chrono::minutes(2);                           // without a failure: forget the earlier ones
constexpr Duration kAtOnce = std::chrono::seconds(1);  // a watch that ends within it has failed
constexpr int kSilentClosesMax = 3;
constexpr int kServerErrorsMax = 5;
constexpr double kWatchSecondsMin = 300;  // up to twice as long, so that not all end together

}  // namespace

void ListWatchPolicy::List(const std::string& resource_version, Duration pause) {
  next_ = {ListWatchStep::Kind::kList, resource_version, pause, {}};
  silent_closes_ = 0;
  server_errors_ = 0;
}

void ListWatchPolicy::Watch(Duration pause) {
  const double seconds = kWatchSecondsMin * (1 + timing_.Uniform());
  next_ = {ListWatchStep::Kind::kWatch, version_, pause,
           std::chrono::seconds(static_cast<long>(seconds))};
}

Duration ListWatchPolicy::PauseFor(Timepoint now) {
  if (now - backed_off_at_ >= kHealthy) backoff_.Reset();
  backed_off_at_ = now;
  return backoff_.Next(timing_.Uniform());
}

void ListWatchPolicy::OnListed(const std::string& resource_version) {
  version_ = resource_version;
  Watch(Duration::zero());
}

void ListWatchPolicy::OnListFailed(const Status& status, Timepoint now) {
  const bool unserved = status.code() == StatusCode::kOutOfRange;
  List(unserved ? "" : next_.resource_version, PauseFor(now));
}

void ListWatchPolicy::OnEvent(const std::string& resource_version) {
  version_ = resource_version;
  heard_ = true;
}

void ListWatchPolicy::OnWatchBegun(Timepoint now) {
  watch_began_at_ = now;
  heard_ = false;
}

void ListWatchPolicy::OnClosed(Timepoint now) {
  server_errors_ = 0;
  if (now - watch_began_at_ >= kAtOnce) {
    silent_closes_ = 0;
    Watch(Duration::zero());
    return;
  }
  silent_closes_ = heard_ ? 0 : silent_closes_ + 1;
  const Duration pause = PauseFor(now);
  if (silent_closes_ >= kSilentClosesMax) {
    List("", pause);
  } else {
    Watch(pause);
  }
}

void ListWatchPolicy::OnRefused(const WatchEnd& end, Timepoint now) {
  const Duration pause = std::max(PauseFor(now), end.retry_after.value_or(Duration::zero()));
  if (end.code == 429) {
    Watch(pause);
  } else if (end.code >= 500 && ++server_errors_ < kServerErrorsMax) {
    Watch(pause);
  } else {
    List(version_, pause);
  }
}

void ListWatchPolicy::OnBroken(const WatchEnd& end, Timepoint now) {
  const Duration pause = PauseFor(now);
  // The same version would send the unreadable event again.
  const bool unreadable = end.status.code() == StatusCode::kDataLoss ||
                          end.status.code() == StatusCode::kResourceExhausted;
  if (unreadable) {
    List(version_, pause);
  } else {
    Watch(pause);
  }
}

void ListWatchPolicy::OnWatchEnded(const WatchEnd& end, Timepoint now) {
  switch (end.kind) {
    case WatchEnd::Kind::kClosed:
      return OnClosed(now);
    case WatchEnd::Kind::kExpired:
      return List(version_, PauseFor(now));
    case WatchEnd::Kind::kRefused:
      return OnRefused(end, now);
    case WatchEnd::Kind::kBroken:
      return OnBroken(end, now);
    case WatchEnd::Kind::kStopped:
      return;
  }
}

}  // namespace swarm::kube
