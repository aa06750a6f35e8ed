#include "base/digest_parts.h"

#define XXH_INLINE_ALL  // its parts are in its header alone
#include <xxhash.h>

#include <algorithm>

namespace swarm {

DigestKeys MakeDigestKeys() {
  DigestKeys keys{.start = XXH3_INIT_ACC, .words = {}, .last = {}};
  for (std::size_t i = 0; i < keys.words.size(); ++i) {
    keys.words[i] = XXH_readLE64(XXH3_kSecret + i * sizeof(std::uint64_t));
  }
  constexpr std::size_t kLast = sizeof XXH3_kSecret - XXH_STRIPE_LEN - XXH_SECRET_LASTACC_START;
  for (std::size_t i = 0; i < keys.last.size(); ++i) {
    keys.last[i] = XXH_readLE64(XXH3_kSecret + kLast + i * sizeof(std::uint64_t));
  }
  static_assert(sizeof keys.words == sizeof XXH3_kSecret);
  static_assert(kDigestScramble == XXH_PRIME32_1);
  return keys;
}

Digest FinishDigest(std::span<const std::uint64_t, kDigestLanes> accumulators, std::uint64_t size) {
  alignas(64) std::array<xxh_u64, kDigestLanes> accs;
  std::copy(accumulators.begin(), accumulators.end(), accs.begin());
  constexpr std::size_t kHigh = sizeof XXH3_kSecret - sizeof accs - XXH_SECRET_MERGEACCS_START;
  return {
      XXH3_mergeAccs(accs.data(), XXH3_kSecret + kHigh, ~(size * XXH_PRIME64_2)),
      XXH3_mergeAccs(accs.data(), XXH3_kSecret + XXH_SECRET_MERGEACCS_START, size * XXH_PRIME64_1)};
}

}  // namespace swarm
