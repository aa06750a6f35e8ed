// Orders of operators: which workers shall leave, which shall serve another stage, and which are
// gone. Of two operators that believe they lead, the one with the later term counts
// (docs/protocol.md, "Observers and the operator").
#pragma once

#include <cstdint>

#include "worker/protocol/coordinator/membership/leaves.h"
#include "worker/protocol/coordinator/membership/rebalancing.h"

namespace swarm::protocol {

class Directions {
 public:
  Directions(Job* job, const Members* members, Leaves* leaves, Rebalancing* rebalancing)
      : job_(*job), members_(*members), leaves_(*leaves), rebalancing_(*rebalancing) {}

  /// An observer has asked. If it is an operator, it decides about the balance from now on.
  void OnObserve(const WorkerId& from, Timepoint now);
  void OnDirect(const WorkerId& from, const Direct& direct, Turn& turn);
  /// The highest that the coordinator obeyed; 0: none.
  std::uint64_t leader_term() const { return leader_term_; }

 private:
  /// Carries out the message. Returns the parts that could not be done, for people.
  std::string Obey(const Direct& direct, Turn& turn);
  /// Tells all of workers that are retired and were not before.
  void Retire(const Retired& retired, Turn& turn);

  Job& job_;
  const Members& members_;
  Leaves& leaves_;
  Rebalancing& rebalancing_;
  std::uint64_t leader_term_ = 0;
};

}  // namespace swarm::protocol
