#include "operator/plan/pools/creation_limits.h"

#include "operator/plan/pods/backoff.h"

namespace swarm::plan {
namespace {

constexpr std::chrono::seconds kFirstWait{5};
constexpr std::chrono::seconds kLongestWait{300};
/// How many ordinals one status write reserves. A mass replacement takes several writes.
constexpr std::uint64_t kBatch = 100;

}  // namespace

bool MayCreate(Draft* draft) {
  const auto& refusal = draft->seen.refusal;
  if (!refusal) return true;
  const WallTime due = refusal->time + BackOff(kFirstWait, kLongestWait, refusal->attempts,
                                               draft->seen.job.uid + "/refused");
  if (draft->now() >= due) return true;
  draft->LookAgain(due);
  return false;
}

std::uint64_t CreationsMax(const Observed& observed) { return observed.refusal ? 1 : kBatch; }

}  // namespace swarm::plan
