// Stochastic wiring: which replica of a stage gets the next microbatch. Interleaved weighted round
// robin over measured service times (SWARM parallelism, arXiv 2301.11913, section 3.2).
//
// Every replica has a virtual time. A pick takes the admissible replica with the least of it and
// charges it the estimated service time of one microbatch, so that over time each replica gets a
// share proportional to its speed. Pure; used by the trainer and the simulator.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "worker/protocol/ids.h"

namespace swarm::protocol {

class Wiring {
 public:
  /// `seed` decides between equals, so that two routers do not march in step.
  explicit Wiring(std::uint64_t seed) : rng_(seed) {}

  /// Sets who may be picked. A newcomer starts at the least virtual time, so that it is measured at
  /// once; who stays keeps time and measurement.
  void SetMembers(const std::vector<WorkerId>& members);

  /// The admissible member with the least virtual time, charged; nothing if none is admissible.
  std::optional<WorkerId> Pick(const std::function<bool(const WorkerId&)>& admissible);

  /// A measured service time of one microbatch (forward and backward), in seconds: an exponential
  /// moving average with weight 0.1 for the newest, bias-corrected. Unknown workers are ignored.
  void Measure(const WorkerId& worker, double seconds);

  /// Estimated seconds a microbatch: measured, or the mean of those measured, or 1.
  double EstimateSeconds(const WorkerId& worker) const;
  /// Whether that is a measurement of this worker.
  bool IsMeasured(const WorkerId& worker) const;

 private:
  struct Entry {
    double virtual_time = 0;
    double average = 0;  // not yet bias-corrected
    double weight = 0;   // 1 - 0.9^n: what the average has to be divided by
  };

  std::map<WorkerId, Entry> entries_;
  double clock_ = 0;  // virtual time of the last pick: nobody may save up more than one charge
  Rng rng_;
};

}  // namespace swarm::protocol
