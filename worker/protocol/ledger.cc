#include "worker/protocol/ledger.h"

#include <algorithm>

#include "base/status.h"

namespace swarm::protocol {

Ledger::Ledger(std::uint64_t microbatches, std::uint64_t stages)
    : microbatches_(microbatches),
      cells_(stages, std::vector<Cell>(microbatches)),
      folded_(stages, 0) {}

Ledger::Cell& Ledger::At(Microbatch microbatch, StageIndex stage) {
  return cells_.at(stage.value).at(microbatch.value);
}

void Ledger::Issue(Microbatch microbatch, StageIndex stage, const WorkerId& worker,
                   Attempt attempt) {
  Cell& cell = At(microbatch, stage);
  SWARM_CHECK(!cell.folded, "a folded contribution was issued again");
  cell.worker = worker;
  cell.attempt = attempt;
}

bool Ledger::MarkFolded(Microbatch microbatch, StageIndex stage, const WorkerId& worker,
                        Attempt attempt) {
  if (stage.value >= cells_.size() || microbatch.value >= microbatches_) return false;
  Cell& cell = At(microbatch, stage);
  if (cell.folded || cell.worker != worker || cell.attempt != attempt) return false;
  cell.folded = true;
  ++folded_[stage.value];
  return true;
}

bool Ledger::Reconcile(const WorkerId& worker, const ClaimSet& stated) {
  if (stated.stage.value >= cells_.size()) return false;
  auto& cells = cells_[stated.stage.value];
  bool disjoint = true;
  for (std::uint64_t m = 0; m < microbatches_; ++m) {
    const bool claimed =
        std::binary_search(stated.microbatches.begin(), stated.microbatches.end(), Microbatch(m));
    Cell& cell = cells[m];
    if (cell.worker != worker) {
      disjoint &= !(claimed && cell.folded);
    } else if (cell.folded != claimed) {
      cell.folded = claimed;
      claimed ? ++folded_[stated.stage.value] : --folded_[stated.stage.value];
    }
  }
  return disjoint;
}

bool Ledger::StageComplete(StageIndex stage) const {
  return folded_.at(stage.value) == microbatches_;
}

std::vector<Participant> Ledger::Claims(StageIndex stage,
                                        const std::vector<WorkerId>& workers) const {
  std::vector<Participant> participants;
  for (const WorkerId& worker : workers) {
    Participant participant{worker, {stage, {}}};
    for (std::uint64_t m = 0; m < microbatches_; ++m) {
      const Cell& cell = cells_[stage.value][m];
      if (cell.folded && cell.worker == worker) {
        participant.claims.microbatches.push_back(Microbatch(m));
      }
    }
    participants.push_back(std::move(participant));
  }
  return participants;
}

}  // namespace swarm::protocol
