#include "operator/kube/client/retry.h"

#include <algorithm>
#include <cmath>

namespace swarm::kube {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(250);
constexpr Duration kLongestPause = std::chrono::seconds(5);
constexpr double kJitter = 0.5;

bool IsBroken(const TryOutcome& outcome) {
  return outcome.transport.code() == StatusCode::kUnavailable ||
         outcome.transport.code() == StatusCode::kDeadlineExceeded ||
         (outcome.transport.ok() && outcome.http_status >= 500);
}

int TriesMax(const TryOutcome& outcome) {
  const bool asked =
      outcome.transport.ok() && (outcome.http_status == 429 ||
                                 (outcome.http_status >= 500 && outcome.retry_after.has_value()));
  if (asked) return kTriesWhenAsked;
  return IsBroken(outcome) && outcome.idempotent ? kTriesWhenBroken : 0;
}

}  // namespace

std::optional<Duration> PauseBeforeRetry(const TryOutcome& outcome, int tries, double uniform) {
  if (tries >= TriesMax(outcome)) return std::nullopt;
  const double doubled = ToSeconds(kFirstPause) * std::pow(2.0, tries - 1);
  const Duration own = std::min(FromSeconds(doubled), kLongestPause);
  const Duration pause = outcome.retry_after.value_or(own);
  return pause + FromSeconds(ToSeconds(pause) * kJitter * uniform);
}

void TokenBucket::Refill(Timepoint now) {
  if (filled_at_ && now > *filled_at_) {
    tokens_ = std::min(burst_, tokens_ + per_second_ * ToSeconds(now - *filled_at_));
  }
  if (!filled_at_ || now > *filled_at_) filled_at_ = now;
}

Duration TokenBucket::Reserve(Timepoint now) {
  Refill(now);
  tokens_ -= 1;
  return tokens_ >= 0 ? Duration::zero() : FromSeconds(-tokens_ / per_second_);
}

bool TokenBucket::TryTake(Timepoint now) {
  Refill(now);
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

}  // namespace swarm::kube
