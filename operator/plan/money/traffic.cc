#include "operator/plan/money/traffic.h"

#include <algorithm>
#include <string>
#include <vector>

#include "api/prices.h"
#include "operator/plan/rounded.h"
#include "operator/plan/trainer_view.h"

namespace swarm::plan {
namespace {

using protocol::RegionTraffic;

// A trainer is its user's program. The status, with what it says, must stay one that the API server
// takes.
constexpr std::size_t kRegionMax = 253;
constexpr std::uint64_t kBytesMax = 1ull << 62;

/// None: there is no room for another pair.
api::TrafficStatus* Find(const RegionTraffic& traffic, std::vector<api::TrafficStatus>* all) {
  if (traffic.a.size() > kRegionMax || traffic.b.size() > kRegionMax) return nullptr;
  const std::vector<std::string> between{traffic.a, traffic.b};
  const auto at = std::ranges::lower_bound(*all, between, {}, &api::TrafficStatus::between);
  if (at != all->end() && at->between == between) return &*at;
  if (all->size() >= api::kTrafficStatusMax) return nullptr;
  return &*all->insert(at, {.between = between});
}

/// Returns by how many bytes the pair has grown.
std::uint64_t Grow(const RegionTraffic& traffic, std::uint64_t term, api::TrafficStatus* pair) {
  const std::uint64_t before = pair->bytes;
  const std::uint64_t counted = std::min(traffic.bytes, kBytesMax);
  // A trainer that has counted less than it had begins anew, whatever its term is.
  if (pair->term != term || pair->bytesBefore + counted < pair->bytes) {
    pair->term = term;
    pair->bytesBefore = pair->bytes;
  }
  pair->bytes = std::min(pair->bytesBefore + counted, kBytesMax);
  return pair->bytes - before;
}

}  // namespace

double CountTraffic(Draft* draft) {
  api::CostStatus& cost = draft->status().cost;
  cost.trafficDollarsPerHour = 0;
  const protocol::JobStatus* view = FreshView(draft->seen, kViewSeconds);
  if (view == nullptr) return 0;
  double added = 0, per_hour = 0;
  for (const RegionTraffic& traffic : view->traffic) {
    api::TrafficStatus* pair = Find(traffic, &draft->status().traffic);
    if (pair == nullptr) continue;
    const double price = api::TrafficDollarsPerByte(draft->job.spec, traffic.a, traffic.b);
    const double dollars = price * static_cast<double>(Grow(traffic, view->term.value, pair));
    pair->dollars += dollars;
    added += dollars;
    if (traffic.bytes_per_second > 0 && traffic.bytes_per_second < static_cast<double>(kBytesMax)) {
      per_hour += price * traffic.bytes_per_second * api::kSecondsPerHour;
    }
  }
  constexpr int kDigits = 3;
  constexpr double kLeast = 1e-6;  // a rate that fades is over then
  if (per_hour >= kLeast) cost.trafficDollarsPerHour = Rounded(per_hour, kDigits);
  return added;
}

}  // namespace swarm::plan
