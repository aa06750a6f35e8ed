// Whether a worker has a trainer, and for how long it has had none.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace swarm::stage {

class TrainerContact {
 public:
  /// There is no trainer yet.
  void Begin(Timepoint now) { lost_ = now; }
  void OnUp() { up_ = true; }
  void OnDown(Timepoint now) {
    up_ = false;
    lost_ = now;
  }

  bool up() const { return up_; }
  /// For how long there has been none. Requires !up().
  Duration Missed(Timepoint now) const { return now - lost_; }
  /// Whether it is time to log that there is none. True once a minute.
  bool IsTimeToLog(Timepoint now) {
    if (now - std::max(lost_, logged_) < std::chrono::seconds(60)) return false;
    logged_ = now;
    return true;
  }

 private:
  bool up_ = false;
  Timepoint lost_;
  Timepoint logged_;
};

}  // namespace swarm::stage
