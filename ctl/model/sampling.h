// Draws the next token. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "base/rng.h"
#include "base/status.h"

namespace swarm::ctl {

struct SamplingOptions {
  double temperature = 0.8;  ///< divides the logits; 0: always the most likely token
  std::uint64_t top_k = 40;  ///< draws from this many of the most likely tokens; 0: all
  double top_p = 1;  ///< of those, draws from the fewest whose probabilities sum to at least this
};

/// An id drawn with the probabilities softmax(logits / temperature), or with temperature 0 the most
/// likely id (the lowest of several). top_p counts the probabilities among the top_k tokens.
/// Requires at least one logit. Errors: kInternal (a logit is not finite).
Result<std::int32_t> SampleToken(std::span<const float> logits, const SamplingOptions& options,
                                 Rng& rng);

}  // namespace swarm::ctl
