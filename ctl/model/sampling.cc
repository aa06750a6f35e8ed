#include "ctl/model/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace swarm::ctl {

Result<std::int32_t> SampleToken(std::span<const float> logits, const SamplingOptions& options,
                                 Rng& rng) {
  const auto wrong = std::find_if_not(logits.begin(), logits.end(),
                                      [](float logit) { return std::isfinite(logit); });
  if (wrong != logits.end()) {
    return Internal("the model's logit of token " + std::to_string(wrong - logits.begin()) +
                    " is not finite: its training has diverged");
  }
  const bool greedy = options.temperature <= 0;
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const std::size_t kept = greedy               ? 1
                           : options.top_k == 0 ? ids.size()
                                                : std::min<std::size_t>(ids.size(), options.top_k);
  const auto more_likely = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(kept), ids.end(),
                    more_likely);
  if (greedy) return ids.front();

  const double highest = logits[static_cast<std::size_t>(ids.front())];
  std::vector<double> cumulative(kept);
  double total = 0;  // ids are in the order of their probabilities
  for (std::size_t i = 0; i < kept; ++i) {
    const double logit = logits[static_cast<std::size_t>(ids[i])];
    cumulative[i] = total += std::exp((logit - highest) / options.temperature);
  }
  auto last = cumulative.end() - 1;
  if (options.top_p < 1) last = std::lower_bound(cumulative.begin(), last, options.top_p * total);
  const auto at = std::upper_bound(cumulative.begin(), last, rng.Uniform() * *last);
  return ids[static_cast<std::size_t>(at - cumulative.begin())];
}

}  // namespace swarm::ctl
