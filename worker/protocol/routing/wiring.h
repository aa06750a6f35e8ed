// Stochastic wiring: which replica of a stage gets the next microbatch. Interleaved weighted round
// robin over measured service times (SWARM parallelism, arXiv 2301.11913, section 3.2).
//
// Every replica has a virtual time. A pick takes the admissible replica with the least virtual time
// and adds the estimated service time of one microbatch to it. So, over time, each replica gets a
// share proportional to its speed. A pick costs O(log n), whatever part of the n replicas is full.
// Pure; used by the trainer and the simulator.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
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
  std::vector<WorkerId> Members() const;

  using Predicate = std::function<bool(const WorkerId&)>;

  /// Whether the member may get a microbatch now; true at first. Unknown workers are ignored.
  void SetOpen(const WorkerId& worker, bool open);
  bool AnyOpen() const { return !open_.empty(); }
  std::size_t open_count() const { return open_.size(); }

  /// Picks the wanted member with the least virtual time among those that are open, and charges it.
  /// Nothing if there is none. Costs O(log n) and a step for each unwanted member before it.
  std::optional<WorkerId> Pick(const Predicate& wanted);
  /// The same among those of `few` that are members. Costs O(log n) for each of them.
  std::optional<WorkerId> PickAmong(const std::vector<WorkerId>& few, const Predicate& wanted);
  /// The same among all members, open or not. Costs O(n).
  std::optional<WorkerId> PickOfAll(const Predicate& wanted);

  /// Takes a measured service time of one microbatch (forward and backward), in seconds, into an
  /// exponential moving average: weight 0.1 for the newest, bias-corrected. Ignores unknown
  /// workers.
  void Measure(const WorkerId& worker, double seconds);

  /// Estimated seconds for a microbatch: the worker's own average, else the mean of all measured
  /// workers, else 1.
  double EstimateSeconds(const WorkerId& worker) const;
  /// The mean of all measured workers; 0: none is.
  double MeanSeconds() const;
  /// Whether EstimateSeconds() is a measurement of this worker.
  bool IsMeasured(const WorkerId& worker) const;

 private:
  struct Entry {
    double virtual_time = 0;
    std::uint64_t tie = 0;  // drawn at each charge: decides between equal times
    double average = 0;     // without bias correction
    double weight = 0;      // 1 - 0.9^n: the average over this is bias-corrected
    bool open = true;

    double seconds() const { return average / weight; }
  };
  using Entries = std::map<WorkerId, Entry>;
  /// Members in the order in which they are picked.
  using Order = std::set<std::tuple<double, std::uint64_t, WorkerId>>;

  static Order::value_type KeyOf(const Entries::value_type& entry) {
    return {entry.second.virtual_time, entry.second.tie, entry.first};
  }
  WorkerId Charge(const WorkerId& worker);

  Entries entries_;
  Order open_;
  double measured_seconds_ = 0;  // the sum of the measured members' averages
  std::size_t measured_ = 0;
  double clock_ = 0;  // virtual time of the last pick: no worker saves up more than one charge
  Rng rng_;
};

}  // namespace swarm::protocol
