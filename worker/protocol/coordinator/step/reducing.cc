#include "worker/protocol/coordinator/step/reducing.h"

#include <algorithm>
#include <string>
#include <utility>

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
  progress.since = turn.now;
  progress.reports.clear();
  progress.participants.clear();
  Reduce reduce{job_.options.term, job_.generation, step, group.index, *progress.k, {}, 0};
  for (const StageIndex stage : group.stages) {
    const auto replicas = members_.Replicas(stage);
    for (Participant& participant : state.ledger.Claims(stage, replicas)) {
      reduce.participants.push_back(std::move(participant));
    }
    reduce.level = std::max(reduce.level, state.levels[stage.value]);
    progress.participants.insert(progress.participants.end(), replicas.begin(), replicas.end());
  }
  for (const WorkerId& worker : progress.participants) turn.Tell(worker, reduce);
  progress.claims = std::move(reduce.participants);
}

void Reducing::OnRefused(const WorkerId& from, const ReduceRefused& refused, Turn& turn) {
  StepState* state = steps_.Find(refused.generation, refused.step);
  if (state == nullptr) return;
  ReduceState& reduce = state->reduces[refused.group];
  const StageIndex stage = members_.At(from).member.stage;
  if (reduce.k != refused.k || refused.folded.stage != stage) return;
  turn.Report(EventKind::kReduceRefused, from.value + " has folded other microbatches of step " +
                                             std::to_string(refused.step.value) +
                                             " than the trainer believed");
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
  if (!reduce.reports.empty() && reduce.reports.begin()->second.digest != reduced.digest) {
    turn.Fail("the sums of step " + std::to_string(reduced.step.value) + " differ between " +
                  from.value + " and " + reduce.reports.begin()->first.value,
              FailureClass::kDiverged);
    return;
  }
  reduce.reports[from] = reduced;
  // A participant alone sums nothing, and its time says nothing about the time that two take.
  if (reduce.reports.size() == reduce.participants.size() && reduce.participants.size() > 1) {
    const double seconds = ToSeconds(turn.now - reduce.since);
    seconds_ = seconds_ == 0 ? seconds : 0.9 * seconds_ + 0.1 * seconds;
  }
  turn.advance = true;
}

void Reducing::Check(Turn& turn) {
  const Patience& patience = job_.options.patience;
  const Duration least =
      seconds_ == 0 ? patience.first_reduce : std::max(patience.reduce, FromSeconds(4 * seconds_));
  for (auto& [step, state] : steps_.all()) {
    for (const ReduceGroup& group : job_.groups) {
      ReduceState& reduce = state.reduces[group.index];
      const Duration deadline = reduce.tries == 0 ? least : 2 * least;
      if (!reduce.k || reduce.reports.size() == reduce.participants.size() ||
          turn.now - reduce.since < deadline) {
        continue;
      }
      if (reduce.tries++ == 0) {  // a chunk may have got lost
        Ask(step, state, group, turn);
        continue;
      }
      // Two workers may not reach each other, or sums take longer than before: allow the next one
      // more.
      seconds_ = std::max(seconds_, ToSeconds(deadline) / 4);
      turn.Evict(ChooseVictim(reduce),
                 "does not finish the sum of step " + std::to_string(step.value),
                 EvictionCause::kUnresponsive);
    }
  }
}

const WorkerId& Reducing::ChooseVictim(const ReduceState& reduce) const {
  const auto damage = [&](const WorkerId& id) {
    const Worker& worker = members_.At(id);
    if (worker.role != Role::kReady) return 0;
    return members_.ReadyReplicas(worker.member.stage).size() > 1 ? 1 : 2;
  };
  std::vector<const WorkerId*> silent;
  for (const WorkerId& id : reduce.participants) {
    if (reduce.reports.contains(id)) continue;
    if (!silent.empty() && damage(id) > damage(*silent.front())) continue;
    if (!silent.empty() && damage(id) < damage(*silent.front())) silent.clear();
    silent.push_back(&id);
  }
  return *silent[static_cast<std::size_t>(reduce.tries) % silent.size()];
}

}  // namespace swarm::protocol
