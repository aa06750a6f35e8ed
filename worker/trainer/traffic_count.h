// What the workers of different regions exchange, added up from their heartbeats. Pure: the time
// comes in with each call. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::trainer {

/// A worker's first beat is where its count begins: what it had exchanged before is of the trainer
/// before, which counted it. Only the regions that workers have come from count, so a worker cannot
/// make it large by naming others.
class TrafficCount {
 public:
  static constexpr std::size_t kRegionsMax = 256;  ///< what others exchange is not counted

  /// The worker, which is in this region, has come.
  void Watch(const protocol::WorkerId& worker, const std::string& region);
  void Forget(const protocol::WorkerId& worker) { workers_.erase(worker); }
  /// A heartbeat. One of a worker that is not watched counts nothing.
  void OnBeat(const protocol::WorkerId& worker, const protocol::Heartbeat& beat, Timepoint now);

  /// Sorted; without pairs that have exchanged nothing.
  std::vector<protocol::RegionTraffic> Read(Timepoint now) const;

 private:
  struct Watched {
    std::string region;
    bool beaten = false;
    std::map<std::string, std::uint64_t> exchanged;  // by region, at its last beat
  };
  struct Pair {
    std::uint64_t bytes = 0;
    double recent = 0;  // of `bytes`, each forgotten at the rate of kMemory, at `time`
    Timepoint time;
  };

  void Add(const std::string& a, const std::string& b, std::uint64_t bytes, Timepoint now);

  std::map<protocol::WorkerId, Watched> workers_;
  std::set<std::string> regions_;  // of workers that have come
  std::map<std::pair<std::string, std::string>, Pair> pairs_;
};

}  // namespace swarm::trainer
