#include "worker/protocol/reachability/link_reports.h"

#include <algorithm>
#include <cmath>

#include "worker/protocol/reachability/link_mean.h"

namespace swarm::protocol {
namespace {

constexpr double kNews = 0.2;
/// Round trips that differ by less are alike: a frame takes longer than that to be read.
constexpr double kSameSeconds = 1e-3;

bool Differs(double value, double before, double least) {
  return std::abs(value - before) > std::max(least, kNews * before);
}

bool IsNews(const Link& link, const Link& before) {
  return Differs(link.round_trip, before.round_trip, kSameSeconds) ||
         Differs(link.bytes_per_second, before.bytes_per_second, 0);
}

}  // namespace

std::string PlaceOf(const Member& member, std::size_t members) {
  return members <= kOwnPlacesUpTo ? member.id.value : member.region;
}

void LinkReports::OnRoster(const Roster& roster) {
  places_.clear();
  for (const Member& member : roster.members) {
    places_[member.id] = PlaceOf(member, roster.members.size());
  }
}

std::optional<Links> LinkReports::OnLook(const std::map<WorkerId, Link>& seen, Timepoint now) {
  if (now < next_) return std::nullopt;
  if (now >= repeat_) {
    reported_.clear();
    repeat_ = now + kRepeat;
  }
  std::map<std::string, LinkMean> means;
  for (const auto& [peer, link] : seen) {
    const auto place = places_.find(peer);
    if (place != places_.end()) means[place->second].Add(link);
  }
  Links report;
  for (const auto& [place, mean] : means) {
    const Link link = mean.Get();
    const auto known = reported_.find(place);
    if (known != reported_.end() && !IsNews(link, known->second)) continue;
    reported_[place] = link;
    report.links.push_back({place, link});
  }
  if (report.links.empty()) return std::nullopt;
  next_ = now + kInterval;
  return report;
}

}  // namespace swarm::protocol
