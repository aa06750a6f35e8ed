// What a connection carries, from what the kernel sees of it. Pure: the time comes in with each
// call and must not go back. Not thread-safe.
#pragma once

#include "base/time.h"
#include "worker/protocol/messages/control.h"

namespace swarm::net {

class LinkMeter {
 public:
  struct Look {
    Timepoint at;
    double round_trip = 0;        ///< seconds: the shortest seen
    double bytes_per_second = 0;  ///< that the peer has acknowledged lately
    bool filled = false;          ///< there was always more to send
  };
  /// The rate is the highest with which the connection was filled in the last kMemory, or in the
  /// last time that it was: a connection begins slowly, and after a loss goes on slowly for a
  /// while. A rate at which it was not filled says only that it carries at least that much.
  protocol::Link OnLook(const Look& look);

  static constexpr Duration kMemory = std::chrono::seconds(20);

 private:
  // The highest rate within the running half of kMemory, and within the one before.
  double best_ = 0, best_before_ = 0;
  Timepoint half_begins_{};
};

}  // namespace swarm::net
