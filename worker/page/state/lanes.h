// What each worker did over the last minutes, from its heartbeats: the lanes of the page's
// timeline. Pure: the time comes in with each call. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::page {

/// A piece of a lane. Its heartbeats tell of `seconds` of it, which are less while the worker is
/// not heard.
struct LaneSlot {
  std::int64_t slot = 0;  ///< time since the clock's epoch, in Lanes::kSlot
  double seconds = 0;
  double compute_seconds = 0;
  double sum_seconds = 0;  ///< a sum was not done; it may overlap with compute
  double bytes = 0;        ///< sent to other stages, and copied from replicas
};

struct Lane {
  protocol::WorkerId worker;
  std::vector<LaneSlot> slots;  ///< by time
};

/// At a moment.
struct LanesView {
  std::int64_t slot = 0;  ///< of that moment
  std::vector<Lane> lanes;
  std::vector<protocol::Eviction> lost;
};

class Lanes {
 public:
  static constexpr Duration kSlot = std::chrono::seconds(2);
  static constexpr std::int64_t kSlots = 150;
  /// So many workers at most; those that were heard least lately go first.
  static constexpr std::size_t kLanesMax = 1024;
  /// What a beat says of more time than this before it is no lane: the worker was not heard.
  static constexpr Duration kUnheard = std::chrono::seconds(5);

  void OnBeat(const protocol::WorkerId& worker, const protocol::Heartbeat& beat, Timepoint now);
  /// The slots after `after` that are not older than kSlots. Lanes without any are left out.
  std::vector<Lane> Since(std::int64_t after, Timepoint now) const;
  static std::int64_t SlotOf(Timepoint time) { return time.time_since_epoch() / kSlot; }

 private:
  struct History {
    Timepoint heard;
    protocol::Heartbeat last;
    std::deque<LaneSlot> slots;
  };
  /// Makes room for one more.
  void Bound();

  std::map<protocol::WorkerId, History> lanes_;
};

/// JSON for the page: {"slot", "slotSeconds", "slots", "lanes": [{"id", "slots": [[slot, heard,
/// compute, sum, bytes], ...]}, ...], "lost": [{"id", "stage", "cause", "text", "ago"}, ...]}.
/// Heard is in per cent of the slot, compute and sum are in per cent of the time heard, bytes in
/// bytes a second. `now` in Unix seconds.
std::string ToJson(const LanesView& view, double now);

}  // namespace swarm::page
