#include "worker/protocol/coordinator/membership/leaves.h"

#include <algorithm>

namespace swarm::protocol {
namespace {

/// How often the coordinator asks again for a parcel that does not arrive.
constexpr int kHandOverTries = 3;

}  // namespace

void Leaves::OnLeaving(const WorkerId& from, const Leaving& leaving, Turn& turn) {
  Worker& worker = members_.At(from);
  const Timepoint deadline = turn.now + FromSeconds(leaving.seconds);
  if (worker.leave() && !worker.leave()->IsMove()) {
    worker.leave()->deadline = std::min(worker.leave()->deadline, deadline);
    return;
  }
  turn.Report(EventKind::kWorkerLeaving,
              from.value + " ends in " + std::to_string(leaving.seconds) + " s",
              {.worker = from, .stage = worker.stage(), .seconds = leaving.seconds});
  Begin(worker, deadline);
  if (!job_.IsTraining()) return;
  if (!worker.InRoster()) {
    return EndAtOnce(from, "leaves as it was told to", "leaves before it served", turn);
  }
  router_.SetReplicas(members_.RoutableReplicas());
  turn.advance = true;
}

std::string Leaves::Drain(const WorkerId& id, Turn& turn) {
  Worker* worker = members_.Find(id);
  if (worker == nullptr) return id.value + " is not here";
  if (worker->leave() && !worker->leave()->IsMove()) return "";
  turn.Report(EventKind::kWorkerLeaving, id.value + " is drained by the operator",
              {.worker = id, .stage = worker->stage()});
  if (!job_.IsTraining() || !worker->InRoster()) {
    EndAtOnce(id, "drained by the operator", "drained before it served", turn);
    return "";
  }
  Begin(*worker, Timepoint::max());  // until its pod is deleted there is no hurry
  router_.SetReplicas(members_.RoutableReplicas());
  return "";
}

void Leaves::Begin(Worker& worker, Timepoint deadline) {
  // Now, not when it has gone: the last replicas of a stage serve until another has come.
  if (worker.InRoster()) rebalancing_.CountChange();
  Leave& leave = members_.BeginLeave(worker);
  leave.to.reset();
  leave.deadline = deadline;
}

void Leaves::EndAtOnce(const WorkerId& id, const std::string& to_it, const std::string& why,
                       Turn& turn) {
  turn.Tell(id, Shutdown{job_.options.term, to_it});
  turn.departures.push_back({.worker = id, .why = why, .cause = std::nullopt});
}

std::optional<std::vector<Adoption>> Leaves::Advance(const WorkerId& id, Turn& turn) {
  Worker& worker = members_.At(id);
  const StageIndex stage = worker.member.stage;
  const auto heirs = members_.StayingReplicas(stage);
  if (heirs.empty()) return std::nullopt;  // it serves until another replica can take over
  // The holders of the next step are others; then one that stays has what it holds.
  if (!members_.holders().CanSpare(id, heirs)) return std::nullopt;
  if (validation_.Needs(id, stage)) return std::nullopt;
  // What it has computed counts once its state is known, and compared with those of others.
  if (!members_.HaveReported(job_.version, stage)) return std::nullopt;
  bool held = true;
  for (auto& [step, state] : steps_.all()) {
    if (IsBusy(id, stage, state)) return std::nullopt;
    if (!state.ledger.HasFolded(stage, id)) continue;
    // The commit, or the end of the repair, comes first.
    if (steps_.IsVoiding(state, stage) || steps_.IsReducing(state, stage)) return std::nullopt;
    held &= HandOverStep(id, heirs.front(), step, turn);
  }
  if (!held) return std::nullopt;
  std::vector<Adoption> adoptions;
  for (auto& [step, state] : steps_.all()) {
    const auto parcel = worker.leave()->parcels.find(step);
    if (parcel == worker.leave()->parcels.end()) continue;
    adoptions.push_back({id, parcel->second.heir, step});
    state.ledger.HandOver(id, parcel->second.heir);
  }
  return adoptions;
}

bool Leaves::IsBusy(const WorkerId& id, StageIndex stage, const StepState& state) const {
  // The frames that it sent must have arrived: frames of a worker that has left are refused.
  return state.ledger.HasOpen(id) || state.ledger.Feeds(stage, id);
}

bool Leaves::HandOverStep(const WorkerId& id, const WorkerId& heir, Step step, Turn& turn) {
  Leave::Parcel& parcel = members_.At(id).leave()->parcels[step];
  const bool is_new = !members_.Has(parcel.heir);
  if (is_new) parcel = {.heir = heir, .asked = turn.now};
  const bool is_late = !parcel.held && turn.now - parcel.asked >=
                                           job_.options.patience.hand_over * (1 << parcel.tries);
  const bool is_lost = !parcel.held && broken_.BrokeAfter(parcel.asked, id, parcel.heir);
  if (is_late) ++parcel.tries;  // a piece may be lost
  if (is_late || is_lost) parcel.asked = turn.now;
  if (is_new || is_late || is_lost) {
    turn.Tell(id, HandOver{job_.options.term, job_.generation, step, parcel.heir});
  }
  return parcel.held;
}

void Leaves::OnParcelHeld(const WorkerId& from, const ParcelHeld& held, Turn& turn) {
  const Worker* donor = members_.Find(held.donor);
  const StepState* state = steps_.Find(held.generation, held.step);
  if (state == nullptr || donor == nullptr || !donor->leave()) return;
  auto& parcels = members_.At(held.donor).leave()->parcels;
  const auto parcel = parcels.find(held.step);
  if (parcel == parcels.end() || parcel->second.heir != from) return;
  ClaimSet claims{donor->member.stage, {}};
  for (const Contribution& c : held.contributions) claims.microbatches.push_back(c.microbatch);
  if (claims != state->ledger.ClaimsOf(claims.stage, held.donor)) return;
  parcel->second.held = true;
  turn.advance = true;
}

void Leaves::LoseHeir(const WorkerId& heir, Turn& turn) {
  for (const WorkerId& donor : members_.leaving()) {
    std::erase_if(members_.At(donor).leave()->parcels, [&](const auto& parcel) {
      if (parcel.second.heir != heir) return false;
      turn.Tell(donor, Thaw{job_.options.term, job_.generation, parcel.first});
      return true;
    });
  }
}

void Leaves::OnCommitted(Step step) {
  for (const WorkerId& id : members_.leaving()) members_.At(id).leave()->parcels.erase(step);
}

bool Leaves::Check(const WorkerId& id, const Worker& worker, Turn& turn) const {
  if (!worker.leave()) return false;
  if (worker.leave()->IsMove())
    return true;  // a parcel that cannot be completed is given up, without harm
  if (worker.leave()->Tries() > kHandOverTries) {
    turn.Evict(id, "its sums do not arrive at their heir", EvictionCause::kUnresponsive);
    return true;
  }
  if (turn.now < worker.leave()->deadline) return false;
  turn.Evict(id, "its time was over before it had handed over", EvictionCause::kLate);
  return true;
}

bool Leaves::IsHandedOver(Step step, StageIndex stage) const {
  if (members_.leaving().empty()) return false;
  const StepState& state = *steps_.Find(step);
  // If a sum of the stage is being made, its commit comes first, with the other sums. So does that
  // of a step that gives parts of the leaver to others.
  const std::vector<WorkerId>& heirs = members_.StayingReplicas(stage);
  const bool may_ask = !steps_.IsReducing(state, stage) && !heirs.empty();
  return std::ranges::any_of(members_.leaving(), [&](const WorkerId& id) {
    const Worker& worker = members_.At(id);
    return worker.role() == Role::kReady && worker.member.stage == stage &&
           (worker.leave()->parcels.contains(step) ||
            (may_ask && members_.holders().CanSpare(id, heirs) &&
             state.ledger.HasFolded(stage, id)));
  });
}

}  // namespace swarm::protocol
