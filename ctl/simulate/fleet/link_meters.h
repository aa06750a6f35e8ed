// What workers measure of their connections while they use them, as worker/net/grpc/link_meter.h
// does: the round trip, and the rate while there was always more to send.
#pragma once

#include <map>

#include "base/time.h"
#include "worker/protocol/ids.h"
#include "worker/protocol/messages/control.h"

namespace swarm::ctl {

class LinkMeters {
 public:
  /// `bytes` took so long to leave the wire. What takes less than a round trip does not fill a
  /// connection.
  void OnSent(const protocol::WorkerId& from, const protocol::WorkerId& to, Duration round_trip,
              double bytes, double seconds, Timepoint now);
  /// The connections that the worker has used.
  std::map<protocol::WorkerId, protocol::Link> Links(const protocol::WorkerId& from, Timepoint now);
  /// The worker is gone.
  void Forget(const protocol::WorkerId& worker);

 private:
  struct Meter {
    double round_trip = 0;
    // The highest rates: in the running half of the time that counts, and in the one before.
    double best = 0, best_before = 0;
    Timepoint half_begins;
  };
  static void Age(Meter& meter, Timepoint now);

  std::map<protocol::WorkerId, std::map<protocol::WorkerId, Meter>> meters_;  // by sender
};

}  // namespace swarm::ctl
