// What operators direct: which workers shall leave, and which shall serve another stage. Of two
// that believe to lead, the one with the later term counts (docs/protocol.md, "Observers and the
// operator").
#pragma once

#include <cstdint>

#include "worker/protocol/coordinator/membership/leaves.h"
#include "worker/protocol/coordinator/membership/rebalancing.h"

namespace swarm::protocol {

class Directions {
 public:
  Directions(Leaves* leaves, Rebalancing* rebalancing)
      : leaves_(*leaves), rebalancing_(*rebalancing) {}

  /// An observer is there; an operator decides about the balance from now on.
  void OnObserve(const WorkerId& from, Timepoint now);
  void OnDirect(const WorkerId& from, const Direct& direct, Turn& turn);
  /// The highest that was obeyed; 0: none.
  std::uint64_t leader_term() const { return leader_term_; }

 private:
  /// Does what the message says. Returns what could not be done, for people.
  std::string Obey(const Direct& direct, Turn& turn);

  Leaves& leaves_;
  Rebalancing& rebalancing_;
  std::uint64_t leader_term_ = 0;
};

}  // namespace swarm::protocol
