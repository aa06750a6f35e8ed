#include "worker/protocol/coordinator/membership/evictions.h"

#include <string>
#include <utility>

namespace swarm::protocol {
namespace {

constexpr std::size_t kLastMax = 64;

/// Whether its process may go on, with a state that is not known to be wrong.
bool MayComeBack(EvictionCause cause) {
  switch (cause) {
    case EvictionCause::kDisconnected:
    case EvictionCause::kSilent:
    case EvictionCause::kUnresponsive:
    case EvictionCause::kUnreachable:
    case EvictionCause::kLate:
      return true;
    case EvictionCause::kUnknown:
    case EvictionCause::kRestarted:
    case EvictionCause::kStuck:
    case EvictionCause::kWrongState:
    case EvictionCause::kFailed:
    case EvictionCause::kWrongResult:
      return false;
  }
  return false;
}

}  // namespace

bool Evictions::Carry(const std::vector<Departure>& departures, Turn& turn) {
  bool roster_changed = false;
  for (const Departure& departure : departures) {
    const Worker* worker = members_.Find(departure.worker);
    if (worker == nullptr) continue;
    const Member& member = worker->member;
    const bool in_roster = worker->InRoster();
    const std::string place =
        worker->stage() ? " of stage " + std::to_string(worker->stage()->value) : "";
    turn.Report(departure.cause ? EventKind::kWorkerLost : EventKind::kWorkerLeft,
                departure.worker.value + place + ": " + departure.why,
                {.worker = departure.worker,
                 .stage = worker->stage(),
                 .cause = std::string(departure.cause ? NameOf(*departure.cause) : ""),
                 .seconds = ToSeconds(turn.now - worker->came)});
    roster_changed |= in_roster;
    const bool counted = worker->leave() && !worker->leave()->IsMove();
    if (in_roster && !counted) accounts_.rebalancing->CountChange();
    if (departure.cause) {
      if (MayComeBack(*departure.cause)) accounts_.joins->NoteAway(*worker, turn.now);
      Note(member, in_roster, *departure.cause, departure.why, turn.now);
    } else {
      ++job_.counts.leaves;
    }
    Forget(departure.worker, turn);
    turn.orders.push_back(order::Forget{departure.worker});
    if (departure.connected) {
      turn.Tell(departure.worker,
                Shutdown{job_.options.term, departure.why, /*rejoin=*/!departure.for_good});
    }
  }
  return roster_changed;
}

void Evictions::Forget(const WorkerId& id, Turn& turn) {
  accounts_.joins->Leave(id, turn);
  accounts_.joins->LoseDonor(id);
  const Worker& worker = members_.At(id);
  const auto stage = worker.InRoster() ? std::optional(worker.member.stage) : std::nullopt;
  members_.Erase(id);
  accounts_.steps->Lose(id, stage, turn);
  accounts_.leaves->LoseHeir(id, turn);
  accounts_.states->Lose(id);
  accounts_.validation->Lose(id);
  accounts_.audits->Lose(id);
  accounts_.checkpoints->Lose(id, turn);
  accounts_.reachability->Lose(id);
}

void Evictions::Note(const Member& member, bool in_roster, EvictionCause cause,
                     const std::string& why, Timepoint now) {
  recovering_ += in_roster ? 1 : 0;
  last_.push_back(
      {++job_.counts.evictions, member.id, member.stage, cause, why, job_.UnixTime(now)});
  if (last_.size() > kLastMax) last_.pop_front();
}

void Evictions::OnCommitted() { job_.counts.recoveries += std::exchange(recovering_, 0); }

}  // namespace swarm::protocol
