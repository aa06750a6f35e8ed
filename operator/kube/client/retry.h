// Whether a request is tried again, when, and how fast requests may follow each other. Pure.
#pragma once

#include <optional>

#include "base/status.h"
#include "base/time.h"

namespace swarm::kube {

/// How one try of a request ended.
struct TryOutcome {
  Status transport;     ///< ok if an answer came
  int http_status = 0;  ///< of the answer
  std::optional<Duration> retry_after;
  /// Whether doing it twice does what doing it once does.
  bool idempotent = true;
};

inline constexpr int kTriesWhenAsked = 10;  // the server said: later
inline constexpr int kTriesWhenBroken = 4;  // nobody knows what happened

/// The pause before the next try, never shorter than Retry-After; none: give up, or it is done.
/// `tries` counts those that were; `uniform` is a draw in [0, 1).
///
/// 429, and 5xx with Retry-After: up to kTriesWhenAsked. Other 5xx, broken connections and
/// timeouts: up to kTriesWhenBroken, if idempotent. Nothing else.
std::optional<Duration> PauseBeforeRetry(const TryOutcome& outcome, int tries, double uniform);

/// So many a second in the long run, so many at once. Not thread-safe.
class TokenBucket {
 public:
  TokenBucket(double per_second, double burst)
      : per_second_(per_second), burst_(burst), tokens_(burst) {}

  /// Takes a token now, or one of the future's: returns how long to wait for it.
  Duration Reserve(Timepoint now);
  /// Takes a token if there is one.
  bool TryTake(Timepoint now);

 private:
  void Refill(Timepoint now);

  const double per_second_;
  const double burst_;
  double tokens_;  // below zero: promised
  std::optional<Timepoint> filled_at_;
};

}  // namespace swarm::kube
