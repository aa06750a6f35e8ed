// Who has folded what: the account of one step's contributions, one cell for each (microbatch,
// stage). The trainer's ledger is built from hints (progress reports); the workers' fold sets are
// the truth, and Reconcile lets them have the last word (docs/protocol.md, rules 7 and 8).
#pragma once

#include <optional>
#include <vector>

#include "worker/protocol/messages.h"

namespace swarm::protocol {

class Ledger {
 public:
  Ledger(std::uint64_t microbatches, std::uint64_t stages);

  /// The cell now belongs to `attempt` by `worker`. Requires: not folded.
  void Issue(Microbatch microbatch, StageIndex stage, const WorkerId& worker, Attempt attempt);

  /// A report that `worker` has folded the cell as `attempt`. Returns false, and changes nothing,
  /// if the cell belongs to another attempt or is folded already: late and doubled reports are
  /// harmless.
  bool MarkFolded(Microbatch microbatch, StageIndex stage, const WorkerId& worker, Attempt attempt);

  /// Makes the cells of `worker` in the stage equal to the fold set that it states. Returns false
  /// if the set contains a cell that another worker has folded: then the sums overlap and the
  /// worker's part must be voided.
  bool Reconcile(const WorkerId& worker, const ClaimSet& folded);

  /// Every microbatch of the stage is folded.
  bool StageComplete(StageIndex stage) const;

  /// What each of `workers` has folded of the stage, in the order given. When the stage is complete
  /// and all owners are among `workers`, these are disjoint and cover all microbatches.
  std::vector<Participant> Claims(StageIndex stage, const std::vector<WorkerId>& workers) const;

 private:
  struct Cell {
    WorkerId worker;
    Attempt attempt;
    bool folded = false;
  };
  Cell& At(Microbatch microbatch, StageIndex stage);

  std::uint64_t microbatches_;
  std::vector<std::vector<Cell>> cells_;  // [stage][microbatch]
  std::vector<std::uint64_t> folded_;     // per stage
};

}  // namespace swarm::protocol
