// How many bytes a peer may have under way to this process: enough for what the path carries and
// for a path that becomes faster, not so many that they pile up in queues.
//
// TCP without a bound fills the queue before the narrowest link. Where both directions are full, as
// in a reduce, acknowledgements then wait behind the other direction's bytes, which slows the
// sender down and makes it send in bursts, which the queue drops. A receiver can prevent that
// alone: what arrives at it in a round trip is what fits into the path, whichever queues the
// acknowledgements wait in, and it may offer the sender no more than a little above that.
//
// Pure: the time comes in with each call and must not go back. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>

#include "base/time.h"

namespace swarm::net {

/// What is known of a connection at a time.
struct Arrivals {
  Timepoint at;
  std::uint64_t bytes = 0;  ///< that have ever arrived, in whatever order
  Duration round_trip{};    ///< the shortest seen: without queues
};

class ReceiveWindow {
 public:
  /// Looks again and returns the bytes to offer; 0: no bound of ours. That is so until the rate of
  /// arrivals has been seen, while it grows fast (slow start must not meet a bound), and where so
  /// little arrives that it fills no queue. Wants to be called every kLookPeriod.
  ///
  /// The bound is kRoom times the most that has arrived within a round trip, so that a path that
  /// becomes faster is followed with that factor every round trip, and a peer that sends in bursts
  /// finds room for larger ones. What a path that has become slower carried before is forgotten
  /// after up to kMemory in which something arrived.
  std::uint64_t OnArrivals(const Arrivals& now);

  static constexpr Duration kLookPeriod = std::chrono::milliseconds(50);
  static constexpr Duration kMemory = std::chrono::seconds(10);
  static constexpr double kRoom = 1.6;
  static constexpr std::uint64_t kBytesMin = 1 << 20;  ///< smaller bounds are none

 private:
  /// The bytes of the last `span`.
  double ArrivedWithin(Duration span) const;
  void Remember(double bytes, Duration span);

  std::deque<Arrivals> looks_;  // the first is the last that is a span old
  // The most in a span: within the running half of kMemory, and within the one before.
  double best_ = 0, best_before_ = 0;
  Duration half_{};  // of the running half, times without arrivals not counted
  Timepoint grows_until_{};
};

}  // namespace swarm::net
