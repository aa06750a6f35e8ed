#include "worker/protocol/coordinator/step/steps.h"

#include <algorithm>
#include <set>
#include <string>

#include "worker/protocol/grid/reduce_grid.h"

namespace swarm::protocol {

using CellState = Ledger::Cell::State;

bool ReduceState::TakesPart(const WorkerId& id) const {
  return std::find(participants.begin(), participants.end(), id) != participants.end();
}

bool ReduceState::Exchange(const WorkerId& a, const WorkerId& b) const {
  const auto at_a = std::ranges::find(participants, a), at_b = std::ranges::find(participants, b);
  if (at_a == participants.end() || at_b == participants.end()) return false;
  const auto seat = [&](auto at) { return static_cast<std::size_t>(at - participants.begin()); };
  return ReduceGrid(participants.size(), rows, regions).Exchange(seat(at_a), seat(at_b));
}

StepState* Steps::Find(Step step) {
  const auto it = steps_.find(step);
  return it == steps_.end() ? nullptr : &it->second;
}

StepState* Steps::Find(Generation generation, Step step) {
  return generation == job_.generation ? Find(step) : nullptr;
}

StepState& Steps::Open(Step step) {
  return steps_.try_emplace(step, job_.options.microbatches, job_.stages()).first->second;
}

void Steps::LoseCells(StepState& state, const WorkerId& worker) {
  for (std::uint64_t m = 0; m < state.ledger.microbatches(); ++m) {
    for (const Ledger::Cell& cell : state.ledger.row(Microbatch(m))) {
      if (cell.worker != worker) continue;
      if (cell.state == CellState::kOpen) router_.Release(worker);
      if (cell.state == CellState::kFolded) ++job_.counts.replays;
    }
    RowState& row = state.rows[m];
    if (row.revoking && row.revoking->worker == worker) row.revoking.reset();
  }
  state.ledger.Lose(worker);
}

void Steps::Lose(const WorkerId& worker, std::optional<StageIndex> stage, Turn& turn) {
  for (auto& [step, state] : steps_) {
    LoseCells(state, worker);
    state.voiding.erase(worker);
    // A sum in which it took part must be made without it.
    const bool takes_part = std::any_of(
        state.reduces.begin(), state.reduces.end(),
        [&](const auto& entry) { return entry.second.k && entry.second.TakesPart(worker); });
    if (stage && takes_part) ThawStage(step, state, *stage, turn);
  }
}

void Steps::ThawStage(Step step, StepState& state, StageIndex stage, Turn& turn) {
  bool asked = false;
  for (const ReduceGroup& group : job_.groups) {
    if (!group.Has(stage)) continue;
    ReduceState& reduce = state.reduces[group.index];
    asked |= reduce.k.has_value();
    reduce.k.reset();
    reduce.reports.clear();
  }
  if (!asked) return;
  for (const WorkerId& id : members_.Replicas(stage)) {
    turn.Tell(id, Thaw{job_.options.term, job_.generation, step});
  }
}

void Steps::VoidWorker(const WorkerId& worker, Step step, StepState& state, Turn& turn) {
  Worker& voided = members_.At(worker);
  const Attempt number = job_.NextAttempt();
  LoseCells(state, worker);
  state.voiding[worker] = {number,
                           turn.now + job_.options.patience.ForRevoke(members_.all().size())};
  if (voided.leave()) voided.leave()->parcels.erase(step);
  turn.Tell(worker, Void{job_.options.term, job_.generation, step, number,
                         state.levels[voided.member.stage.value]});
}

void Steps::VoidStage(Step step, StepState& state, StageIndex stage, Turn& turn) {
  std::set<StageIndex> stages{stage};
  for (const ReduceGroup& group : job_.groups) {
    if (group.Has(stage)) stages.insert(group.stages.begin(), group.stages.end());
  }
  std::uint64_t level = 0;
  for (const StageIndex s : stages) level = std::max(level, state.levels[s.value] + 1);
  turn.Report(EventKind::kScaleLowered,
              "stage " + std::to_string(stage.value) + " begins step " +
                  std::to_string(step.value) + " again at level " + std::to_string(level),
              {.stage = stage});
  for (const StageIndex s : stages) {
    state.levels[s.value] = level;
    RestartStage(step, state, s, turn);
  }
}

void Steps::BeginAgain(Version version, const std::string& without, Turn& turn) {
  for (auto& [step, state] : steps_) {
    if (job_.VersionFor(step) < version) continue;
    turn.Report(EventKind::kStepRepeated, "step " + std::to_string(step.value) +
                                              " begins again, without what was computed " +
                                              without);
    for (std::uint64_t s = 0; s < job_.stages(); ++s) {
      RestartStage(step, state, StageIndex(s), turn);
    }
  }
}

void Steps::RestartStage(Step step, StepState& state, StageIndex stage, Turn& turn) {
  ThawStage(step, state, stage, turn);
  for (const WorkerId& id : members_.Replicas(stage)) VoidWorker(id, step, state, turn);
}

void Steps::OnVoided(const WorkerId& from, const Voided& voided, Turn& turn) {
  StepState* state = Find(voided.generation, voided.step);
  if (state == nullptr) return;
  const auto voiding = state->voiding.find(from);
  if (voiding == state->voiding.end() || voiding->second.number != voided.number) return;
  state->voiding.erase(voiding);
  turn.advance = true;
}

void Steps::CheckVoids(const StepState& state, Turn& turn) const {
  for (const auto& [worker, voiding] : state.voiding) {
    if (turn.now < voiding.deadline) continue;
    turn.Evict(worker, "did not answer Void", EvictionCause::kUnresponsive);
  }
}

bool Steps::IsVoiding(const StepState& state, StageIndex stage) const {
  return std::any_of(state.voiding.begin(), state.voiding.end(), [&](const auto& entry) {
    const Worker* worker = members_.Find(entry.first);
    return worker != nullptr && worker->member.stage == stage;
  });
}

bool Steps::IsReducing(const StepState& state, StageIndex stage) const {
  return std::any_of(job_.groups.begin(), job_.groups.end(), [&](const ReduceGroup& group) {
    const auto reduce = state.reduces.find(group.index);
    return group.Has(stage) && reduce != state.reduces.end() && reduce->second.k.has_value();
  });
}

}  // namespace swarm::protocol
