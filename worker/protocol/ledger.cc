#include "worker/protocol/ledger.h"

#include <algorithm>

#include "base/status.h"

namespace swarm::protocol {

using State = Ledger::Cell::State;

Ledger::Ledger(std::uint64_t microbatches, std::uint64_t stages)
    : rows_(microbatches, Row(stages)), folded_(stages, 0) {
  for (std::uint64_t m = 0; m < microbatches; ++m) fresh_.insert(Microbatch(m));
}

void Ledger::Issue(Microbatch microbatch, StageIndex stage, const WorkerId& worker,
                   Attempt attempt) {
  Cell& cell = At(microbatch, stage);
  SWARM_CHECK(cell.state == State::kMissing, "a contribution was issued twice");
  cell = Cell{State::kOpen, worker, attempt};
  Classify(microbatch);
}

void Ledger::Classify(Microbatch microbatch) {
  const Row& cells = row(microbatch);
  const auto missing = static_cast<std::size_t>(std::count_if(
      cells.begin(), cells.end(), [](const Cell& c) { return c.state == State::kMissing; }));
  fresh_.erase(microbatch);
  broken_.erase(microbatch);
  if (missing > 0) (missing == cells.size() ? fresh_ : broken_).insert(microbatch);
}

bool Ledger::MarkForwarded(const TaskKey& key, const WorkerId& worker) {
  if (key.stage.value >= stages() || key.microbatch.value >= microbatches()) return false;
  Cell& cell = At(key.microbatch, key.stage);
  if (cell.state != State::kOpen || cell.worker != worker || cell.attempt != key.attempt) {
    return false;
  }
  cell.forwarded = true;
  return true;
}

bool Ledger::MarkFolded(const TaskKey& key, const WorkerId& worker, double loss) {
  if (!MarkForwarded(key, worker)) return false;
  MakeFolded(key.microbatch, key.stage, loss);
  return true;
}

bool Ledger::Adopt(StageIndex stage, const WorkerId& worker, const Contribution& contribution) {
  if (stage.value >= stages() || contribution.microbatch.value >= microbatches()) return false;
  Cell& cell = At(contribution.microbatch, stage);
  if (cell.state == State::kFolded) return cell.worker == worker;
  MakeMissing(contribution.microbatch, stage);
  Issue(contribution.microbatch, stage, worker, contribution.attempt);
  MakeFolded(contribution.microbatch, stage, contribution.loss);
  return true;
}

void Ledger::MakeFolded(Microbatch microbatch, StageIndex stage, double loss) {
  Cell& cell = At(microbatch, stage);
  cell.state = State::kFolded;
  cell.forwarded = true;
  cell.loss = loss;
  ++folded_[stage.value];
}

void Ledger::MakeMissing(Microbatch microbatch, StageIndex stage) {
  Cell& cell = At(microbatch, stage);
  if (cell.state == State::kFolded) --folded_[stage.value];
  cell = Cell{};
  Classify(microbatch);
}

void Ledger::Close(Microbatch microbatch, StageIndex stage) { MakeMissing(microbatch, stage); }

void Ledger::Lose(const WorkerId& worker) {
  for (std::uint64_t m = 0; m < microbatches(); ++m) {
    for (std::uint64_t s = 0; s < stages(); ++s) {
      if (rows_[m][s].worker == worker) MakeMissing(Microbatch(m), StageIndex(s));
    }
  }
}

void Ledger::HandOver(const WorkerId& donor, const WorkerId& heir) {
  for (Row& row : rows_) {
    for (Cell& cell : row) {
      if (cell.worker == donor && cell.state == State::kFolded) cell.worker = heir;
    }
  }
}

bool Ledger::Reconcile(const WorkerId& worker, const ClaimSet& stated) {
  if (stated.stage.value >= stages()) return false;
  bool disjoint = true;
  for (std::uint64_t m = 0; m < microbatches(); ++m) {
    const bool claimed =
        std::binary_search(stated.microbatches.begin(), stated.microbatches.end(), Microbatch(m));
    const Cell& cell = rows_[m][stated.stage.value];
    const bool folded = cell.state == State::kFolded;
    if (cell.worker != worker) {
      // The worker claims a cell of another worker, by an attempt that this trainer does not know.
      // Such a contribution cannot be taken out of the sum either.
      disjoint &= !claimed;
    } else if (folded && !claimed) {
      MakeMissing(Microbatch(m), stated.stage);
    } else if (!folded && claimed) {
      MakeFolded(Microbatch(m), stated.stage, cell.loss);
    }
  }
  return disjoint;
}

bool Ledger::StageComplete(StageIndex stage) const {
  return folded_.at(stage.value) == microbatches();
}

bool Ledger::HasOpen(const WorkerId& worker) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) {
    return std::any_of(row.begin(), row.end(), [&](const Cell& cell) {
      return cell.state == State::kOpen && cell.worker == worker;
    });
  });
}

ClaimSet Ledger::ClaimsOf(StageIndex stage, const WorkerId& worker) const {
  ClaimSet claims{stage, {}};
  for (std::uint64_t m = 0; m < microbatches(); ++m) {
    const Cell& cell = rows_[m][stage.value];
    if (cell.state == State::kFolded && cell.worker == worker) {
      claims.microbatches.push_back(Microbatch(m));
    }
  }
  return claims;
}

std::vector<Participant> Ledger::Claims(StageIndex stage,
                                        const std::vector<WorkerId>& workers) const {
  std::vector<Participant> participants;
  for (const WorkerId& worker : workers) {
    participants.push_back({worker, ClaimsOf(stage, worker)});
  }
  return participants;
}

std::vector<double> Ledger::Losses() const {
  std::vector<double> losses;
  for (const Row& row : rows_) losses.push_back(row.back().loss);
  return losses;
}

}  // namespace swarm::protocol
