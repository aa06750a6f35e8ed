#include "worker/protocol/coordinator/step/reducing.h"

#include <algorithm>
#include <string>
#include <utility>

#include "worker/protocol/grid/reduce_grid.h"
#include "worker/protocol/parts.h"

namespace swarm::protocol {

void Reducing::AskForComplete(Turn& turn) {
  const Step step(job_.version.value);
  StepState* state = steps_.Find(step);
  if (state == nullptr) return;
  for (const ReduceGroup& group : job_.groups) {
    if (state->reduces[group.index].k) continue;
    const bool complete = std::all_of(group.stages.begin(), group.stages.end(), [&](StageIndex s) {
      return state->ledger.StageComplete(s) && !steps_.IsVoiding(*state, s) &&
             !leaves_.IsHandedOver(step, s);
    });
    if (complete) Ask(step, *state, group, turn);
  }
}

void Reducing::Ask(Step step, StepState& state, const ReduceGroup& group, Turn& turn) {
  ReduceState& progress = state.reduces[group.index];
  progress.k = job_.NextAttempt();
  progress.since = progress.progress = turn.now;
  if (progress.asked == Timepoint()) progress.asked = turn.now;
  progress.reports.clear();
  progress.awaiting.clear();
  progress.claims.clear();
  Reduce reduce{job_.options.term, job_.generation, step, group.index, *progress.k};
  std::vector<PlacedMember> participants;
  for (const StageIndex stage : group.stages) {
    const std::vector<WorkerId>& replicas = members_.Replicas(stage);
    for (Participant& participant : state.ledger.Claims(stage, replicas)) {
      progress.claims.push_back(std::move(participant));
    }
    reduce.level = std::max(reduce.level, state.levels[stage.value]);
    for (const WorkerId& id : replicas) {
      const Member& member = members_.At(id).member;
      participants.push_back({id, member.pod, member.region});
    }
  }
  progress.holders.clear();
  Seating seating;
  if (members_.holders().IsDivided(group.index)) {
    reduce.holders = progress.holders =
        members_.holders().Choose(group.index, ChooseCandidates(group.stages.front()));
    // One row, since any two may have to exchange data.
    for (PlacedMember& member : participants) seating.seats.push_back(std::move(member.id));
  } else {
    seating = SeatByPlace(participants, job_.options.flat_reduce_max);
  }
  progress.participants = reduce.participants = std::move(seating.seats);
  progress.rows = reduce.rows = seating.rows;
  progress.regions = reduce.regions = std::move(seating.regions);
  for (const Participant& participant : progress.claims) {
    reduce.claims = participant.claims;
    turn.Tell(participant.worker, reduce);
  }
}

std::vector<WorkerId> Reducing::ChooseCandidates(StageIndex stage) const {
  std::vector<WorkerId> staying = members_.StayingReplicas(stage);
  const std::vector<WorkerId>& ready = members_.ReadyReplicas(stage);
  if (staying.empty()) return ready;
  if (staying.size() > 1 || ready.size() == 1) return staying;
  staying.push_back(ready[ready.front() == staying.front() ? 1 : 0]);
  std::ranges::sort(staying);
  return staying;
}

void Reducing::OnRefused(const WorkerId& from, const ReduceRefused& refused, Turn& turn) {
  StepState* state = steps_.Find(refused.generation, refused.step);
  if (state == nullptr) return;
  ReduceState& reduce = state->reduces[refused.group];
  const StageIndex stage = members_.At(from).member.stage;
  if (reduce.k != refused.k || refused.folded.stage != stage) return;
  turn.Report(EventKind::kReduceRefused,
              from.value + " has folded other microbatches of step " +
                  std::to_string(refused.step.value) + " than the trainer believed",
              {.worker = from, .stage = stage});
  const bool same = state->ledger.ClaimsOf(stage, from) == refused.folded;
  steps_.ThawStage(refused.step, *state, stage, turn);
  reduce.k.reset();
  // The same set at another scale level, or a set that overlaps with those of others, is of no use.
  if (same || !state->ledger.Reconcile(from, refused.folded)) {
    steps_.VoidWorker(from, refused.step, *state, turn);
  }
  turn.advance = true;
}

void Reducing::OnReduced(const WorkerId& from, const Reduced& reduced, Turn& turn) {
  StepState* state = steps_.Find(reduced.generation, reduced.step);
  if (state == nullptr) return;
  ReduceState& reduce = state->reduces[reduced.group];
  if (reduce.k != reduced.k || !reduce.TakesPart(from)) return;
  reduce.reports[from] = reduced;
  reduce.awaiting.erase(from);
  reduce.progress = turn.now;
  turn.advance = true;
  if (reduce.reports.size() < reduce.participants.size()) return;
  const ReduceGroup& group = job_.groups.at(reduced.group.value);
  const auto different = FindDifferentParts(reduce.holders, reduce.reports);
  if (!different.empty()) return OnPartsDiffer(reduced.step, *state, group, different, turn);
  const Digest& digest = reduce.reports.begin()->second.digest;
  if (std::ranges::any_of(reduce.reports,
                          [&](const auto& entry) { return entry.second.digest != digest; })) {
    return OnDisagreement(reduced.step, *state, group, turn);
  }
  // A participant alone sums nothing, and its time says nothing about the time that two take.
  if (reduce.participants.size() > 1) {
    const double seconds = ToSeconds(turn.now - reduce.since);
    seconds_ = seconds_ == 0 ? seconds : 0.9 * seconds_ + 0.1 * seconds;
  }
}

void Reducing::OnDisagreement(Step step, StepState& state, const ReduceGroup& group, Turn& turn) {
  ReduceState& reduce = state.reduces[group.index];
  std::map<Digest, std::vector<WorkerId>> camps;
  for (const auto& [id, report] : reduce.reports) camps[report.digest].push_back(id);
  const std::vector<WorkerId>* largest = &camps.begin()->second;
  for (const auto& [digest, camp] : camps) {
    if (camp.size() > largest->size()) largest = &camp;
  }
  const std::string what = "sum of step " + std::to_string(step.value);
  const bool most = 2 * largest->size() > reduce.reports.size();
  if (!most && reduce.disagreements++ == 0) {  // a bit may have flipped
    turn.Report(EventKind::kReduceDiffers, "the participants hold different values of the " + what,
                {.stage = group.stages.front()});
    return Ask(step, state, group, turn);
  }
  for (const auto& [digest, camp] : camps) {
    if (&camp == largest) continue;
    for (const WorkerId& id : camp) {
      if (!EvictForSum(id, what, "the others", turn)) return;
    }
  }
}

bool Reducing::EvictForSum(const WorkerId& id, const std::string& what, const char* than,
                           Turn& turn) {
  if (trouble_.Note(id, job_.version)) {
    turn.Fail("the workers hold different values of the " + what + ", again and again",
              FailureClass::kDiverged);
    return false;
  }
  turn.Evict(id, "it holds another value of the " + what + " than " + than,
             EvictionCause::kWrongState);
  return true;
}

void Reducing::OnPartsDiffer(Step step, StepState& state, const ReduceGroup& group,
                             const std::vector<std::uint64_t>& parts, Turn& turn) {
  ReduceState& reduce = state.reduces[group.index];
  const std::string what = "sum of step " + std::to_string(step.value);
  if (reduce.disagreements++ == 0) {  // a bit may have flipped
    turn.Report(EventKind::kReduceDiffers, "two holders hold different values of the " + what,
                {.stage = group.stages.front()});
    return Ask(step, state, group, turn);
  }
  const PartHolders& holders = reduce.holders[parts.front()];
  const WorkerId& id =
      holders.second.empty() || !members_.CanSpare(holders.second) ? holders.first : holders.second;
  EvictForSum(id, what, "another", turn);
}

void Reducing::OnAwaiting(const WorkerId& from, const Awaiting& awaiting, Timepoint now) {
  StepState* state = steps_.Find(awaiting.generation, awaiting.step);
  if (state == nullptr) return;
  const auto found = state->reduces.find(awaiting.group);
  if (found == state->reduces.end()) return;
  ReduceState& reduce = found->second;
  if (reduce.k != awaiting.k || !reduce.TakesPart(from) || reduce.reports.contains(from)) return;
  Awaiting& before = reduce.awaiting[from];
  if (awaiting.chunks > before.chunks) reduce.progress = now;
  before = awaiting;
}

void Reducing::Check(Turn& turn) {
  const Patience& patience = job_.options.patience;
  const Duration least =
      seconds_ == 0 ? patience.first_reduce : std::max(patience.reduce, FromSeconds(4 * seconds_));
  for (auto& [step, state] : steps_.all()) {
    for (const ReduceGroup& group : job_.groups) {
      ReduceState& reduce = state.reduces[group.index];
      if (!reduce.k || reduce.reports.size() == reduce.participants.size()) continue;
      if (IsLost(reduce, turn.now)) {
        Ask(step, state, group, turn);
        continue;
      }
      if (turn.now - reduce.progress < least) continue;
      if (reduce.tries++ == 0) {  // a chunk may have got lost
        Ask(step, state, group, turn);
        continue;
      }
      reduce.tries = 0;
      turn.Evict(ChooseVictim(reduce),
                 "does not finish the sum of step " + std::to_string(step.value),
                 EvictionCause::kUnresponsive);
    }
  }
}

bool Reducing::IsLost(const ReduceState& reduce, Timepoint now) const {
  if (now - reduce.since < kDetourTime) return false;
  return std::ranges::any_of(broken_.all(), [&](const auto& broken) {
    const auto& [pair, report] = broken;
    return report.since >= reduce.since - kDetourTime && reduce.Exchange(pair.a, pair.b);
  });
}

WorkerId Reducing::ChooseVictim(const ReduceState& reduce) const {
  const auto waits_itself = [&](const WorkerId& id) {
    const auto awaiting = reduce.awaiting.find(id);
    return awaiting != reduce.awaiting.end() && !awaiting->second.from.empty();
  };
  // Who waits itself may be late for that reason. Those at the end of such chains are to blame;
  // without an end, as where two wait for each other, any.
  std::vector<WorkerPair> waits, ends;
  for (const auto& [id, awaiting] : reduce.awaiting) {
    for (const WorkerId& other : awaiting.from) {
      if (!reduce.TakesPart(other)) continue;
      waits.push_back({id, other});
      if (!waits_itself(other)) ends.push_back({id, other});
    }
  }
  if (!ends.empty()) waits = std::move(ends);
  if (waits.empty()) {  // each silent one waits for itself
    for (const WorkerId& id : reduce.participants) {
      if (!reduce.reports.contains(id)) waits.push_back({id, id});
    }
  }
  const auto cost = [&](const WorkerId& id) {
    return members_.At(id).role() == Role::kReady ? std::size_t{1} : std::size_t{0};
  };
  const auto spare =
      ChooseToGo(waits, [&](const WorkerId& id) { return members_.CanSpare(id); }, cost);
  return spare ? *spare : *ChooseToGo(waits, [](const WorkerId&) { return true; }, cost);
}

}  // namespace swarm::protocol
