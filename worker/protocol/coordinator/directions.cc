#include "worker/protocol/coordinator/directions.h"

#include <string>
#include <utility>

namespace swarm::protocol {

void Directions::OnObserve(const WorkerId& from, Timepoint now) {
  if (IsOperator(from)) rebalancing_.OnOperatorHeard(now);
}

void Directions::OnDirect(const WorkerId& from, const Direct& direct, Turn& turn) {
  DirectReply reply{.number = direct.number};
  if (!IsOperator(from)) {
    reply.why = from.value + " is no operator of this job";
  } else if (direct.leader_term == 0 || direct.leader_term < leader_term_) {
    reply.why = "leader term " + std::to_string(direct.leader_term) +
                " is over: an operator of term " + std::to_string(leader_term_) + " was heard";
  } else {
    leader_term_ = direct.leader_term;
    rebalancing_.OnOperatorHeard(turn.now);
    reply.accepted = true;
    reply.why = Obey(direct, turn);
  }
  reply.leader_term = leader_term_;
  turn.Tell(from, std::move(reply));
  turn.advance = true;
}

std::string Directions::Obey(const Direct& direct, Turn& turn) {
  std::string refusals;
  const auto note = [&](const std::string& why) {
    if (!why.empty()) refusals += (refusals.empty() ? "" : "; ") + why;
  };
  for (const WorkerId& id : direct.drain) note(leaves_.Drain(id, turn));
  for (const StageMove& move : direct.moves) note(rebalancing_.Move(move, turn));
  Retire(direct.retired, turn);
  return refusals;
}

void Directions::Retire(const Retired& retired, Turn& turn) {
  if (!job_.retired.Learn(retired)) return;
  turn.orders.push_back(order::Retire{job_.retired});
  // Who is told and retired itself hears that it cannot come back.
  for (const auto& [id, worker] : members_.all()) {
    turn.Tell(id, protocol::Retire{job_.options.term, job_.retired});
  }
}

}  // namespace swarm::protocol
