// Whether and when a request is retried, and how fast requests may follow each other. Pure.
#pragma once

#include <optional>

#include "base/status.h"
#include "base/time.h"

namespace swarm::kube {

/// How one try of a request ended.
struct TryOutcome {
  Status transport;     ///< ok if there was an answer
  int http_status = 0;  ///< of the answer
  std::optional<Duration> retry_after;
  /// Whether carrying it out twice has the same effect as once.
  bool idempotent = true;
};

inline constexpr int kTriesWhenAsked = 10;  // the server asked to retry later
inline constexpr int kTriesWhenBroken = 4;  // the outcome is unknown

/// The pause before the next try, at least Retry-After. None: no further try. `tries` counts the
/// tries so far; `uniform` is a random number in [0, 1).
///
/// 429, and 5xx with Retry-After: up to kTriesWhenAsked. Other 5xx, broken connections and
/// timeouts: up to kTriesWhenBroken, if idempotent. Anything else is not retried.
std::optional<Duration> PauseBeforeRetry(const TryOutcome& outcome, int tries, double uniform);

/// A rate limit: `per_second` in the mean, `burst` at once. Not thread-safe.
class TokenBucket {
 public:
  TokenBucket(double per_second, double burst)
      : per_second_(per_second), burst_(burst), tokens_(burst) {}

  /// Takes the next token and returns how long the caller must wait for it.
  Duration Reserve(Timepoint now);
  /// Takes a token if one is available now.
  bool TryTake(Timepoint now);

 private:
  void Refill(Timepoint now);

  const double per_second_;
  const double burst_;
  double tokens_;  // below zero: tokens that were taken in advance
  std::optional<Timepoint> filled_at_;
};

}  // namespace swarm::kube
