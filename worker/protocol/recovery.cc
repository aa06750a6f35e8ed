#include "worker/protocol/recovery.h"

namespace swarm::protocol {
namespace {

using State = Ledger::Cell::State;

TaskKey KeyOf(const RowName& name, std::uint64_t stage, Attempt attempt) {
  return {name.generation, name.step, name.microbatch, StageIndex(stage), attempt};
}

Forward FrameOf(const RowName& name, const Ledger::Row& row, std::uint64_t stage) {
  Forward frame;
  frame.version = name.version;
  for (const Ledger::Cell& cell : row) frame.hops.push_back({cell.worker, cell.attempt, true});
  frame.key = KeyOf(name, stage, frame.hops[stage].attempt);
  return frame;
}

/// The owner of the stage below has the input of stage frame.key.stage.
void AskHolder(const RowName& name, const Ledger::Row& row, PassOrders& orders) {
  const std::uint64_t stage = orders.frame.key.stage.value;
  if (stage == 0) return;
  const Ledger::Cell& below = row[stage - 1];
  orders.holder = below.worker;
  orders.resend = {name.term, KeyOf(name, stage - 1, below.attempt), orders.frame};
}

/// The owner of `stage` has, or will have, the gradient for `target`, the task below it.
void AskReturner(const RowName& name, const Ledger::Row& row, std::uint64_t stage,
                 const WorkerId& to, const TaskKey& target, PassOrders& orders) {
  if (stage >= row.size()) return;
  orders.returner = row[stage].worker;
  orders.redirect = {name.term, KeyOf(name, stage, row[stage].attempt), to, target};
}

}  // namespace

std::vector<StageRun> FindMissingRuns(const Ledger::Row& row) {
  std::vector<StageRun> runs;
  for (std::uint64_t s = 0; s < row.size(); ++s) {
    if (row[s].state != State::kMissing) continue;
    if (!runs.empty() && runs.back().end == s) {
      ++runs.back().end;
    } else {
      runs.push_back({s, s + 1});
    }
  }
  return runs;
}

PassOrders PlanPass(const RowName& name, const Ledger::Row& row, const StageRun& run) {
  PassOrders orders;
  orders.frame = FrameOf(name, row, run.begin);
  Forward& frame = orders.frame;
  frame.first = StageIndex(run.begin);
  // Above the run: a worker that has its input already need not get it again. If it may lack the
  // input, it is sent the input, and refuses a repeated one.
  const bool above_has_it = run.end < row.size() && row[run.end].forwarded;
  frame.end = StageIndex(above_has_it ? run.end : row.size());
  // Below it: a worker that has not folded may wait for its gradient.
  if (run.begin > 0 && row[run.begin - 1].state == State::kOpen) {
    frame.upstream = frame.hops[run.begin - 1];
  }
  AskHolder(name, row, orders);
  const Hop& last = frame.hops[run.end - 1];
  AskReturner(name, row, run.end, last.worker, KeyOf(name, run.end - 1, last.attempt), orders);
  return orders;
}

PassOrders PlanForwardAgain(const RowName& name, const Ledger::Row& row, const TaskKey& source,
                            const Forward& frame, const WorkerId& worker, Attempt attempt) {
  PassOrders orders;
  orders.frame = frame;
  orders.frame.key = KeyOf(name, source.stage.value, attempt);
  orders.frame.hops[source.stage.value] = {worker, attempt, false};
  AskHolder(name, row, orders);
  return orders;
}

PassOrders PlanBackwardAgain(const RowName& name, const Ledger::Row& row, const TaskKey& source,
                             const WorkerId& to, const TaskKey& target, const WorkerId& worker,
                             Attempt attempt) {
  const std::uint64_t stage = source.stage.value;
  PassOrders orders;
  orders.frame = FrameOf(name, row, stage);
  Forward& frame = orders.frame;
  frame.key.attempt = attempt;
  frame.hops[stage] = {worker, attempt, false};
  frame.first = source.stage;
  frame.end = StageIndex(stage + 1);
  frame.upstream = {to, target.attempt, true};
  AskHolder(name, row, orders);
  AskReturner(name, row, stage + 1, worker, frame.key, orders);
  return orders;
}

std::optional<StageIndex> FindBlocker(const Ledger::Row& row) {
  std::optional<StageIndex> blocker;
  for (std::uint64_t s = 0; s < row.size(); ++s) {
    if (row[s].state != State::kOpen) continue;
    blocker = StageIndex(s);
    if (!row[s].forwarded) break;
  }
  return blocker;
}

}  // namespace swarm::protocol
