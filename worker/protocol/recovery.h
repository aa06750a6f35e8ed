// Plans what workers must send and compute to replace missing contributions: they resend retained
// outputs, recompute others, and repeat no work that is done already (docs/protocol.md, rules 9 and
// 10). Pure.
//
// A microbatch's row has missing cells where their owners departed. Each maximal run [begin, end)
// of them is executed by new owners, between neighbours that are alive: the stage below has x_begin
// (its output; the tokens, for stage 0), the stage above has the gradient g_end (its input
// gradient). This one rule covers departures in forward, in backward, after the fold, and of
// adjacent stages; a fresh microbatch is the run of all stages.
#pragma once

#include <optional>
#include <vector>

#include "worker/protocol/ledger.h"

namespace swarm::protocol {

/// Stages [begin, end).
struct StageRun {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool operator==(const StageRun&) const = default;
};

/// The maximal runs of missing cells.
std::vector<StageRun> FindMissingRuns(const Ledger::Row& row);

/// The orders that start a pass.
struct PassOrders {
  Forward frame;                     ///< of the first stage that executes; without tokens
  std::optional<WorkerId> holder;    ///< has its input and gets `resend`; none: the trainer sends
  Resend resend;                     ///< if there is a holder
  std::optional<WorkerId> returner;  ///< has, or will have, the gradient for the last stage
  Redirect redirect;                 ///< if there is a returner
};

/// Names one row: the fields that all its tasks share.
struct RowName {
  Term term;
  Generation generation;
  Step step;
  Microbatch microbatch;
  Version version;
};

/// The pass that executes `run`, whose cells were just issued. All cells of the row are issued.
PassOrders PlanPass(const RowName& name, const Ledger::Row& row, const StageRun& run);

/// `holder` cannot resend the output of `source` any more: it (or `worker`, as `attempt`) executes
/// that stage's forward again, without graph, for the pass of `frame`.
PassOrders PlanForwardAgain(const RowName& name, const Ledger::Row& row, const TaskKey& source,
                            const Forward& frame, const WorkerId& worker, Attempt attempt);

/// The input gradient of `source` is not retained any more: `worker` executes forward and backward
/// of that stage again, as `attempt`, without folding, for the task `target` of `to`.
PassOrders PlanBackwardAgain(const RowName& name, const Ledger::Row& row, const TaskKey& source,
                             const WorkerId& to, const TaskKey& target, const WorkerId& worker,
                             Attempt attempt);

/// The stage that keeps the row from going on: the first whose forward is not done, or else the
/// highest that has not folded. Nothing if no cell is open.
std::optional<StageIndex> FindBlocker(const Ledger::Row& row);

}  // namespace swarm::protocol
