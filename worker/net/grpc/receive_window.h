// How many bytes a peer may have under way to this process: enough to fill the path, also one that
// becomes faster, and not so many that they pile up in queues.
//
// TCP without a bound fills the queue before the narrowest link. Where both directions are full, as
// in a reduce, acknowledgements then wait behind the other direction's bytes, which slows the
// sender down and makes it send in bursts, which the queue drops. The receiver alone can prevent
// that. The bytes that arrive in a round trip are those that fit into the path, whichever queues
// the acknowledgements wait in. The receiver offers the sender only a little more.
//
// Pure: the time comes in with each call and must not go back. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>

#include "base/time.h"

namespace swarm::net {

/// What is known of a connection at one time.
struct Arrivals {
  Timepoint at;
  std::uint64_t bytes = 0;  ///< all that have arrived, in any order
  Duration round_trip{};    ///< the shortest seen: without queues
};

class ReceiveWindow {
 public:
  /// Looks again and returns the bytes to offer; 0: no bound. There is none until the rate of
  /// arrivals is known, while it grows fast (slow start must not meet a bound), and if too little
  /// arrives to fill a queue. Call this every kLookPeriod.
  ///
  /// The bound is kRoom times the most that has arrived within a round trip. So it follows a path
  /// that becomes faster by that factor every round trip, and leaves a peer that sends in bursts
  /// room for larger ones. When a path becomes slower, the bound forgets the earlier rate after up
  /// to kMemory, times without arrivals not counted.
  std::uint64_t OnArrivals(const Arrivals& now);

  static constexpr Duration kLookPeriod = std::chrono::milliseconds(50);
  static constexpr Duration kMemory = std::chrono::seconds(10);
  static constexpr double kRoom = 1.6;
  static constexpr std::uint64_t kBytesMin = 1 << 20;  ///< a smaller bound counts as none

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
