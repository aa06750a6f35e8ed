// Workers that would fail again if they joined at once: those that others do not reach, and those
// that replay more slowly than steps are decided. They wait before they get a stage, each further
// time twice as long.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>

#include "base/time.h"
#include "worker/protocol/ids.h"

namespace swarm::protocol {

class HoldOff {
 public:
  /// The worker failed, and is held off from now on.
  void Extend(const WorkerId& worker, Timepoint now) {
    Wait& wait = waits_[worker];
    if (now - wait.until > kMax) wait.length = {};  // that was another trouble
    wait.length = std::clamp(2 * wait.length, kMin, kMax);
    wait.until = now + wait.length;
  }
  /// Until this time it gets no stage of a job in training: a past time for every other worker.
  Timepoint Until(const WorkerId& worker) const {
    const auto wait = waits_.find(worker);
    return wait == waits_.end() ? Timepoint() : wait->second.until;
  }

 private:
  static constexpr Duration kMin = std::chrono::seconds(10);
  static constexpr Duration kMax = std::chrono::minutes(5);
  struct Wait {
    Duration length{};
    Timepoint until;
  };
  std::map<WorkerId, Wait> waits_;
};

}  // namespace swarm::protocol
