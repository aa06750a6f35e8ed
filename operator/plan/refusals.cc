#include "operator/plan/refusals.h"

#include "operator/plan/backoff.h"

namespace swarm::plan {
namespace {

constexpr std::chrono::seconds kFirstWait{5};
constexpr std::chrono::seconds kLongestWait{300};
/// What one status write reserves: the API server sees a mass replacement in a few bites.
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
