// One event, from its arrival until all its consequences are ordered.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "worker/protocol/coordinator/order.h"

namespace swarm::protocol {

/// A worker that departs.
struct Departure {
  WorkerId worker;
  std::string why;         ///< for people
  bool connected = false;  ///< its process may live: it is told to come back as a new incarnation
  std::optional<EvictionCause> cause = EvictionCause::kDisconnected;  ///< none: it leaves in order
  bool for_good = false;  ///< it is told to end instead, and has no place in the job again
};

/// What every part of the coordinator gets: the time, and the place for its orders. A part puts its
/// demands on other parts here, and the coordinator settles them when the part is done
/// (Coordinator::Settle).
struct Turn {
  const Timepoint now;
  Orders orders = {};

  struct Failure {
    std::string reason;
    FailureClass failure_class;
  };
  std::optional<Failure> failure = {};     ///< the job cannot go on
  std::vector<Departure> departures = {};  ///< to be evicted
  /// What was computed with this version of the weights, or a later one, may be wrong.
  std::optional<Version> distrusted = {};
  bool miscomputed = false;  ///< what was computed of the open steps may be wrong, by an audit
  bool advance = false;      ///< something may be issued, reduced, committed or handed over now
  /// The same after a worker's reports: of the workers that leave, at most these can go on now.
  bool progressed = false;
  std::vector<WorkerId> rested = {};

  template <typename M>
  void Tell(const WorkerId& to, M message) {
    orders.push_back(order::Tell{to, std::move(message)});
  }
  void Report(EventKind kind, std::string text, EventFields fields = {}) {
    orders.push_back(order::Event{kind, std::move(text), std::move(fields)});
  }
  void Evict(WorkerId worker, std::string why, EvictionCause cause) {
    departures.push_back({std::move(worker), std::move(why), true, cause});
  }
  /// The first failure counts.
  void Fail(std::string reason, FailureClass failure_class) {
    if (!failure) failure = Failure{std::move(reason), failure_class};
  }
};

}  // namespace swarm::protocol
