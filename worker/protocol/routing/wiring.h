// Stochastic wiring: which replica of a stage gets the next microbatch. Interleaved weighted round
// robin over measured service times (SWARM parallelism, arXiv 2301.11913, section 3.2).
//
// Every replica has a virtual time. A pick takes the admissible replica with the least virtual time
// and adds the estimated service time of one microbatch to it. So, over time, each replica gets a
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
  /// `seed` decides between replicas with equal times, so that two routers do not pick in step.
  explicit Wiring(std::uint64_t seed) : rng_(seed) {}

  /// Sets the members. A new member starts at the least virtual time, so that it is measured at
  /// once. A member that stays keeps its time and its measurement.
  void SetMembers(const std::vector<WorkerId>& members);

  /// Picks the admissible member with the least virtual time and charges it. Nothing if none is
  /// admissible.
  std::optional<WorkerId> Pick(const std::function<bool(const WorkerId&)>& admissible);

  /// Takes a measured service time of one microbatch (forward and backward), in seconds, into an
  /// exponential moving average: weight 0.1 for the newest, bias-corrected. Ignores unknown
  /// workers.
  void Measure(const WorkerId& worker, double seconds);

  /// Estimated seconds for a microbatch: the worker's own average, else the mean of all measured
  /// workers, else 1.
  double EstimateSeconds(const WorkerId& worker) const;
  /// Whether EstimateSeconds() is a measurement of this worker.
  bool IsMeasured(const WorkerId& worker) const;

 private:
  struct Entry {
    double virtual_time = 0;
    double average = 0;  // without bias correction
    double weight = 0;   // 1 - 0.9^n: the average over this is bias-corrected
  };

  std::map<WorkerId, Entry> entries_;
  double clock_ = 0;  // virtual time of the last pick: no worker saves up more than one charge
  Rng rng_;
};

}  // namespace swarm::protocol
