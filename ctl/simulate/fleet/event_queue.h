// Virtual time: events in the order of their times, and of their posting where the times are equal.
// So a run is a function of its inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

#include "base/time.h"

namespace swarm::ctl {

/// Costs O(log n) an event. Not thread-safe.
class EventQueue {
 public:
  using Event = std::function<void()>;

  /// Later than Timepoint(), which means "never" in places of the protocol.
  Timepoint now() const { return now_; }
  /// A time in the past is now.
  void At(Timepoint at, Event event);
  void After(Duration delay, Event event) { At(now_ + delay, std::move(event)); }

  /// Carries out the events up to that time, which is then now.
  void RunUntil(Timepoint end);
  std::uint64_t events() const { return events_; }

 private:
  struct Entry {
    Timepoint at;
    std::uint64_t number = 0;
    Event event;
    /// The one that comes first is the greatest.
    auto operator<=>(const Entry& other) const {
      return std::tie(other.at, other.number) <=> std::tie(at, number);
    }
    bool operator==(const Entry& other) const { return number == other.number; }
  };

  Timepoint now_ = Timepoint(std::chrono::hours(1));
  std::uint64_t numbers_ = 0;
  std::uint64_t events_ = 0;
  std::vector<Entry> heap_;  // the next one in front
};

}  // namespace swarm::ctl
