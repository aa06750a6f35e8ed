#include "worker/protocol/coordinator/trouble.h"

#include <algorithm>
#include <set>

namespace swarm::protocol {
namespace {

constexpr std::uint64_t kVersions = 100;
constexpr std::size_t kWorkers = 3;
constexpr std::ptrdiff_t kTimes = 3;

}  // namespace

bool Trouble::Note(const WorkerId& worker, Version version) {
  std::erase_if(last_, [&](const Entry& entry) {
    const bool rolled_back = entry.version > version;
    return !rolled_back && version.value - entry.version.value >= kVersions;
  });
  last_.push_back({worker, version});
  std::set<WorkerId> workers;
  for (const Entry& entry : last_) workers.insert(entry.worker);
  // After a rollback the version is lower, and no commit has passed the trouble either.
  const auto stuck =
      std::ranges::count_if(last_, [&](const Entry& entry) { return entry.version >= version; });
  return workers.size() >= kWorkers || stuck >= kTimes;
}

}  // namespace swarm::protocol
