#include "worker/protocol/coordinator/step/dispatch.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace swarm::protocol {

using CellState = Ledger::Cell::State;

void Dispatch::IssueAll(Turn& turn) {
  for (std::uint64_t t = job_.version.value; t < job_.OpenStepsEnd(); ++t) steps_.Open(Step(t));
  bool room = true;
  for (auto& [step, state] : steps_.all()) {
    // A copy: issuing a row removes it from the set.
    for (const Microbatch m : std::set<Microbatch>(state.ledger.broken())) {
      room &= IssueRow(step, state, m, turn);
    }
  }
  if (!room) return;  // fresh microbatches must not take slots that repairs wait for
  audits_.Issue(turn);
  while (validation_.Issue(turn)) {
  }
  if (validation_.HasUnissued()) return;
  for (auto& [step, state] : steps_.all()) {
    while (!state.ledger.fresh().empty()) {
      if (!IssueRow(step, state, *state.ledger.fresh().begin(), turn)) return;
    }
  }
}

bool Dispatch::IssueRow(Step step, StepState& state, Microbatch microbatch, Turn& turn) {
  RowState& row = state.rows[microbatch.value];
  const auto runs = FindMissingRuns(state.ledger.row(microbatch));
  const bool fresh = runs.front() == StageRun{0, job_.stages()};
  if (row.revoking) return true;  // its answer may open another cell
  std::vector<WorkerId> owners;   // of all runs, one after the other
  bool room = true;
  for (const StageRun& run : runs) {
    for (std::uint64_t s = run.begin; s < run.end; ++s) {
      room &= !steps_.IsVoiding(state, StageIndex(s));
    }
    if (!room) break;
    const Ledger::Row& cells = state.ledger.row(microbatch);
    const auto route =
        router_.Draw({.begin = run.begin,
                      .end = run.end,
                      .repair = !fresh,
                      .avoid = row.avoid,
                      .below = run.begin > 0 ? cells[run.begin - 1].worker : WorkerId(),
                      .above = run.end < cells.size() ? cells[run.end].worker : WorkerId()});
    room = route.has_value();
    if (!room) break;
    owners.insert(owners.end(), route->begin(), route->end());
  }
  if (!room) {
    for (const WorkerId& owner : owners) router_.Release(owner);
    return false;
  }
  auto owner = owners.begin();
  for (const StageRun& run : runs) {
    for (std::uint64_t s = run.begin; s < run.end; ++s) {
      state.ledger.Issue(microbatch, StageIndex(s), *owner++, job_.NextAttempt());
    }
  }
  for (const StageRun& run : runs) {
    BeginPass(PlanPass(job_.NameOf(step, microbatch), state.ledger.row(microbatch), run), state,
              turn);
  }
  if (fresh) audits_.OnIssued(step, microbatch);
  state.begun = true;
  row.progress = turn.now;
  row.drawn = fresh ? turn.now : Timepoint();
  row.charged = false;
  row.avoid = {};
  return true;
}

void Dispatch::BeginPass(PassOrders pass, StepState& state, Turn& turn) {
  if (pass.holder) {
    state.resends[pass.resend.source].push_back(pass.frame);
    turn.Tell(*pass.holder, std::move(pass.resend));
  } else {
    turn.orders.push_back(order::Issue{std::move(pass.frame)});
  }
  if (pass.returner) {
    state.redirects[pass.redirect.source] = {pass.redirect.to, pass.redirect.target};
    turn.Tell(*pass.returner, std::move(pass.redirect));
  }
}

void Dispatch::OnProgress(const WorkerId& from, const Progress& progress, Turn& turn) {
  for (const TaskReport& report : progress.reports) {
    if (report.key.generation == job_.generation && job_.IsTraining()) {
      OnReport(from, report, turn);
    }
  }
  turn.progressed = true;
  audits_.Conclude(turn);
}

void Dispatch::OnReport(const WorkerId& from, const TaskReport& report, Turn& turn) {
  using Event = TaskReport::Event;
  const TaskKey& key = report.key;
  if (report.event == Event::kEvaluated) {
    if (!members_.leaving().empty()) turn.rested.push_back(from);
    return validation_.OnEvaluated(from, report);
  }
  if (report.event == Event::kForwarded) router_.MeasureForward(from, report.seconds);
  slowest_work_ = std::max(report.seconds, 0.995 * slowest_work_);
  StepState* state = steps_.Find(key.step);
  if (state == nullptr) return;
  state->boundary_bytes += report.boundary_bytes;
  if (key.stage.value < state->task_seconds.size()) {
    state->task_seconds[key.stage.value] += report.seconds;
  }
  if (audits_.OnReport(from, report, turn.now)) return;
  switch (report.event) {
    case Event::kForwarded:
      if (state->ledger.MarkForwarded(key, from)) Touch(*state, key.microbatch, turn.now);
      break;
    case Event::kFolded:
      if (!state->ledger.MarkFolded(key, from, report.loss)) break;
      Touch(*state, key.microbatch, turn.now);
      router_.MeasureBackward(from, report.seconds);
      if (key.stage == StageIndex(0)) MeasureStay(*state, key.microbatch, turn.now);
      router_.Release(from);
      NoteRest(*state, key, from, turn);
      break;
    case Event::kPropagated:
      Touch(*state, key.microbatch, turn.now);
      break;
    case Event::kOverflow:
      // A Void may have removed the attempt from the ledger already.
      if (state->ledger.MarkForwarded(key, from)) {
        steps_.VoidStage(key.step, *state, key.stage, turn);
      }
      break;
    case Event::kEvaluated:
      break;
  }
}

void Dispatch::OnTokensAwaited(const TaskKey& key, Timepoint now) {
  StepState* state = steps_.Find(key.generation, key.step);
  if (state == nullptr || key.microbatch.value >= state->rows.size()) return;
  audits_.OnTokensAwaited(key, now);
  const bool current = state->ledger.cell(key.microbatch, key.stage).attempt == key.attempt;
  if (current) state->rows[key.microbatch.value].progress = now;
}

void Dispatch::Touch(StepState& state, Microbatch microbatch, Timepoint now) {
  if (microbatch.value >= state.rows.size()) return;
  RowState& row = state.rows[microbatch.value];
  if (row.progress == Timepoint()) return;  // issued by the earlier trainer
  slowest_gap_ = std::max(ToSeconds(now - row.progress), 0.995 * slowest_gap_);
  row.progress = now;
  row.charged = false;
}

void Dispatch::NoteRest(const StepState& state, const TaskKey& folded, const WorkerId& from,
                        Turn& turn) const {
  if (members_.leaving().empty()) return;
  turn.rested.push_back(from);
  // The worker above was needed for its gradient.
  const Ledger::Row& row = state.ledger.row(folded.microbatch);
  if (folded.stage.value + 1 < row.size()) {
    turn.rested.push_back(row[folded.stage.value + 1].worker);
  }
}

void Dispatch::MeasureStay(const StepState& state, Microbatch microbatch, Timepoint now) {
  const Timepoint drawn = state.rows.at(microbatch.value).drawn;
  if (drawn == Timepoint()) return;
  for (const Ledger::Cell& cell : state.ledger.row(microbatch)) {
    router_.MeasureStay(cell.worker, ToSeconds(now - drawn));
  }
}

void Dispatch::OnMissing(const WorkerId& from, const Missing& missing, Turn& turn) {
  const TaskKey& source = missing.source;
  StepState* state = steps_.Find(source.generation, source.step);
  if (state == nullptr || !job_.IsTraining()) return;
  if (source.microbatch.value >= job_.options.microbatches || source.stage.value >= job_.stages()) {
    return;
  }
  const Ledger::Row& row = state->ledger.row(source.microbatch);
  const auto issued = [&](std::uint64_t stage) {
    return stage >= job_.stages() || row[stage].state != CellState::kMissing;
  };
  // Where a neighbour is missing too, its repair, or the row's deadline, mends this as well.
  if (source.stage.value > 0 && !issued(source.stage.value - 1)) return;
  const RowName name = job_.NameOf(source.step, source.microbatch);
  if (!missing.gradient) {
    const auto resend = state->resends.extract(source);
    if (!resend) return;
    for (const Forward& frame : resend.mapped()) {
      BeginPass(PlanForwardAgain(name, row, source, frame, from, job_.NextAttempt()), *state, turn);
    }
  } else {
    const auto redirect = state->redirects.extract(source);
    if (!redirect || !issued(source.stage.value + 1)) return;
    const auto& [to, target] = redirect.mapped();
    const int tries = state->rows[source.microbatch.value].tries;
    const WorkerId& worker = Recomputer(from, source.stage, tries);
    BeginPass(PlanBackwardAgain(name, row, source, to, target, worker, job_.NextAttempt()), *state,
              turn);
  }
}

const WorkerId& Dispatch::Recomputer(const WorkerId& from, StageIndex stage, int tries) const {
  const std::vector<WorkerId>& replicas = members_.ReadyReplicas(stage);
  const auto own = std::ranges::find(replicas, from);
  if (own == replicas.end()) return from;
  const auto place = static_cast<std::size_t>(own - replicas.begin());
  return replicas[(place + static_cast<std::size_t>(tries)) % replicas.size()];
}

void Dispatch::OnRevoked(const WorkerId& from, const Revoked& revoked, Turn& turn) {
  const TaskKey& key = revoked.key;
  StepState* state = steps_.Find(key.generation, key.step);
  if (state == nullptr || key.microbatch.value >= job_.options.microbatches) return;
  RowState& row = state->rows[key.microbatch.value];
  if (!row.revoking || row.revoking->key != key || row.revoking->worker != from) return;
  row.revoking.reset();
  row.progress = turn.now;
  const Ledger::Cell& cell = state->ledger.cell(key.microbatch, key.stage);
  // If it was folded, the report is on its way, or has come already.
  if (!revoked.folded && cell.state == CellState::kOpen && cell.attempt == key.attempt) {
    router_.Release(from);
    state->ledger.Close(key.microbatch, key.stage);
    row.avoid = from;
  }
  turn.advance = true;
}

void Dispatch::OnBeat(const WorkerId& from, const Heartbeat& beat, Turn& turn) {
  Worker* worker = members_.Find(from);
  if (worker == nullptr || !worker->InRoster() || !job_.IsTraining()) return;
  worker->busy_seconds = beat.busy_seconds;
  if (!worker->busy_before) worker->busy_before = beat.busy_seconds;
  if (beat.queued_tasks == 0 || beat.compute_progress != worker->computed ||
      worker->computed_at == Timepoint()) {
    worker->computed = beat.compute_progress;
    worker->computed_at = turn.now;
  }
  const Patience& patience = job_.options.patience;
  const Duration longest = slowest_work_ == 0
                               ? patience.first_microbatch
                               : std::max(patience.compute, FromSeconds(20 * slowest_work_));
  if (turn.now - worker->computed_at < longest) return;
  turn.Evict(from, "its device does not come to an end with its work", EvictionCause::kStuck);
}

Duration Dispatch::RowPatience(int tries) const {
  const Patience& patience = job_.options.patience;
  const Duration least = slowest_gap_ == 0
                             ? patience.first_microbatch
                             : std::max(patience.microbatch, FromSeconds(4 * slowest_gap_));
  return least * (1 << std::min(tries, 6));
}

void Dispatch::Check(Turn& turn) {
  for (auto& [step, state] : steps_.all()) {
    steps_.CheckVoids(state, turn);
    for (std::uint64_t m = 0; m < state.rows.size(); ++m) {
      CheckRow(step, state, Microbatch(m), turn);
    }
  }
  validation_.IssueAgainAfter(4 * RowPatience(0), turn.now);
  audits_.Check(RowPatience(0), turn);
}

void Dispatch::CheckRow(Step step, StepState& state, Microbatch microbatch, Turn& turn) {
  RowState& row = state.rows[microbatch.value];
  if (row.revoking) {
    if (turn.now >= row.revoking->deadline) {
      turn.Evict(row.revoking->worker, "did not answer Revoke", EvictionCause::kUnresponsive);
    }
    return;
  }
  if (!broken_.empty() && IsLost(row, state.ledger.row(microbatch), turn.now)) {
    return Revoke(step, state, microbatch, *FindBlocker(state.ledger.row(microbatch)), turn);
  }
  const Duration patience = RowPatience(row.tries);
  if (turn.now - row.progress < patience / 2) return;
  const auto stage = FindBlocker(state.ledger.row(microbatch));
  if (!stage || state.ledger.broken().contains(microbatch)) return;
  const Ledger::Cell& cell = state.ledger.cell(microbatch, *stage);
  // A worker that computes has others before this one in its queue, and is measured by those.
  const Worker* worker = members_.Find(cell.worker);
  const bool computes = worker != nullptr && worker->computed_at > row.progress;
  if (!computes && !std::exchange(row.charged, true)) {
    router_.Charge(cell.worker, ToSeconds(turn.now - row.progress));
  }
  if (turn.now - row.progress < patience) return;
  ++row.tries;
  Revoke(step, state, microbatch, *stage, turn);
}

bool Dispatch::IsLost(const RowState& row, const Ledger::Row& cells, Timepoint now) const {
  const auto blocker = FindBlocker(cells);
  if (!blocker || row.progress == Timepoint() || now - row.progress < kDetourTime) return false;
  const std::uint64_t s = blocker->value;
  const Timepoint sent = row.progress - kDetourTime;
  if (std::ranges::any_of(cells, [](const auto& c) { return c.state == CellState::kMissing; })) {
    return false;
  }
  if (!cells[s].forwarded) {
    return s > 0 && broken_.BrokeAfter(sent, cells[s - 1].worker, cells[s].worker);
  }
  return s + 1 < cells.size() && broken_.BrokeAfter(sent, cells[s].worker, cells[s + 1].worker);
}

void Dispatch::Revoke(Step step, StepState& state, Microbatch microbatch, StageIndex stage,
                      Turn& turn) {
  RowState& row = state.rows[microbatch.value];
  const Ledger::Cell& cell = state.ledger.cell(microbatch, stage);
  ++job_.counts.revocations;
  const TaskKey key{job_.generation, step, microbatch, stage, cell.attempt};
  turn.Report(
      EventKind::kMicrobatchStuck,
      "microbatch " + std::to_string(microbatch.value) + " of step " + std::to_string(step.value) +
          " at " + cell.worker.value,
      {.worker = cell.worker,
       .stage = stage,
       .seconds = row.progress == Timepoint() ? std::nullopt
                                              : std::optional(ToSeconds(turn.now - row.progress))});
  if (job_.options.rules.revoke_before_reissue) {
    row.revoking = {key, cell.worker,
                    turn.now + job_.options.patience.ForRevoke(members_.all().size())};
    turn.Tell(cell.worker, protocol::Revoke{job_.options.term, key});
  } else {
    row.avoid = cell.worker;
    row.progress = turn.now;
    router_.Release(cell.worker);
    state.ledger.Close(microbatch, stage);
  }
}

}  // namespace swarm::protocol
