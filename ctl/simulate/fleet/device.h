// A worker's device: one thing at a time, in the order of worker/stage/compute.h. Each piece of
// work takes virtual seconds.
#pragma once

#include <functional>
#include <map>
#include <tuple>

#include "ctl/simulate/fleet/event_queue.h"
#include "worker/protocol/ids.h"

namespace swarm::ctl {

enum class WorkKind : std::uint8_t { kBackward = 0, kForward = 1 };

class Device {
 public:
  /// Called when the work is done.
  using Done = std::function<void()>;

  /// The queue outlives the device; so must the device its last event, or be stopped before.
  explicit Device(EventQueue* queue) : queue_(*queue) {}

  /// Work on the state itself: first come, first served, before all else.
  void PostState(double seconds, Done done);
  /// Work on a microbatch: older steps first, within a step backward before forward.
  void PostTask(protocol::Step step, WorkKind kind, double seconds, Done done);
  /// Drops all work, also what runs.
  void Clear();

  double busy_seconds() const { return busy_seconds_; }
  std::uint64_t finished() const { return finished_; }
  /// Pieces of work that wait or run.
  std::uint64_t queued() const { return waiting_.size() + (running_ ? 1 : 0); }

 private:
  // (0 for state, step, kind, order of arrival)
  using Order = std::tuple<int, std::uint64_t, int, std::uint64_t>;
  struct Work {
    double seconds = 0;
    Done done;
  };
  void Post(int rank, protocol::Step step, int kind, Work work);
  void RunNext();

  EventQueue& queue_;
  std::map<Order, Work> waiting_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t life_ = 0;  // counts Clear(): events of before are void
  bool running_ = false;
  double busy_seconds_ = 0;
  std::uint64_t finished_ = 0;
};

}  // namespace swarm::ctl
