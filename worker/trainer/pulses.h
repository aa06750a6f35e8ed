// The heartbeats of the workers, and which workers have fallen silent. Pure: the time comes in with
// each call. Not thread-safe.
#pragma once

#include <map>
#include <vector>

#include "worker/protocol/liveness/detector.h"
#include "worker/protocol/messages/control.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::trainer {

class Pulses {
 public:
  /// Begins to watch a worker, as if its heartbeat had just come.
  void Watch(const protocol::WorkerId& worker, Timepoint now) { detector_.Watch(worker, now); }
  void Forget(const protocol::WorkerId& worker);
  /// A heartbeat.
  void OnBeat(const protocol::WorkerId& worker, const protocol::Heartbeat& beat, Timepoint now);
  /// A heartbeat from which only the life of its sender is taken.
  void OnSignOfLife(const protocol::WorkerId& worker, const protocol::Heartbeat& beat,
                    Timepoint now);

  /// The workers that have been silent for too long. Forgets them.
  std::vector<protocol::WorkerId> TakeSilent(Timepoint now);
  /// When to call TakeSilent next, at the latest.
  Timepoint NextDeadline() const { return detector_.NextDeadline(); }

  /// Whether no heartbeat is known of any worker.
  bool empty() const { return pulses_.empty(); }
  /// Fills in, for each worker of the status: tasks that wait, utilization, bytes a second.
  void Describe(protocol::JobStatus* status) const;

 private:
  struct Pulse {
    Timepoint time;
    protocol::Heartbeat beat;
    // Averages over about a second.
    double utilization = 0;
    double bytes_per_second = 0;
  };

  std::map<protocol::WorkerId, Pulse> pulses_;
  protocol::FailureDetector detector_;
};

}  // namespace swarm::trainer
