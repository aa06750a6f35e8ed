#include "worker/protocol/ledger.h"

#include <algorithm>

#include "base/status.h"

namespace swarm::protocol {

using State = Ledger::Cell::State;

Ledger::Ledger(std::uint64_t microbatches, std::uint64_t stages)
    : rows_(microbatches, Row(stages)), folded_(stages, 0), missing_(microbatches, stages) {
  for (std::uint64_t m = 0; m < microbatches; ++m) fresh_.insert(fresh_.end(), Microbatch(m));
}

void Ledger::Issue(Microbatch microbatch, StageIndex stage, const WorkerId& worker,
                   Attempt attempt) {
  SWARM_CHECK(cell(microbatch, stage).state == State::kMissing, "a contribution was issued twice");
  Set(microbatch, stage, Cell{State::kOpen, worker, attempt});
}

void Ledger::Set(Microbatch microbatch, StageIndex stage, Cell next) {
  const Cell& before = cell(microbatch, stage);
  if (next.state == State::kMissing && before.state != State::kMissing &&
      redone_.size() < kRedoneMax) {
    redone_.push_back({before.worker, stage, microbatch, before.state == State::kFolded});
  }
  Count(microbatch, stage, -1);
  At(microbatch, stage) = std::move(next);
  Count(microbatch, stage, 1);
  Classify(microbatch);
}

void Ledger::Count(Microbatch microbatch, StageIndex stage, int sign) {
  const Row& cells = row(microbatch);
  const Cell& own = cells[stage.value];
  const auto change = static_cast<std::uint64_t>(sign);
  if (own.state == State::kMissing) {
    missing_[microbatch.value] += change;
    return;
  }
  Share& share = shares_[{own.worker, stage}];
  std::set<Microbatch>& of_state = own.state == State::kOpen ? share.open : share.folded;
  if (sign > 0) {
    of_state.insert(microbatch);
  } else {
    of_state.erase(microbatch);
  }
  if (own.state == State::kFolded) folded_[stage.value] += change;
  if (stage.value > 0 && cells[stage.value - 1].state == State::kOpen) share.feeds += change;
  const std::uint64_t above = stage.value + 1;
  if (own.state == State::kOpen && above < cells.size() && cells[above].state != State::kMissing) {
    shares_[{cells[above].worker, StageIndex(above)}].feeds += change;
  }
}

void Ledger::Classify(Microbatch microbatch) {
  const std::uint64_t missing = missing_[microbatch.value];
  const auto keep = [&](std::set<Microbatch>& set, bool belongs) {
    if (belongs) {
      set.insert(microbatch);
    } else {
      set.erase(microbatch);
    }
  };
  keep(fresh_, missing == stages());
  keep(broken_, missing > 0 && missing < stages());
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
  Set(contribution.microbatch, stage,
      {State::kFolded, worker, contribution.attempt, true, contribution.loss});
  return true;
}

void Ledger::MakeFolded(Microbatch microbatch, StageIndex stage, double loss) {
  const Cell& open = cell(microbatch, stage);
  Set(microbatch, stage, {State::kFolded, open.worker, open.attempt, true, loss});
}

void Ledger::Close(Microbatch microbatch, StageIndex stage) { Set(microbatch, stage, Cell{}); }

void Ledger::Lose(const WorkerId& worker) {
  for (auto it = shares_.lower_bound({worker, StageIndex(0)});
       it != shares_.end() && it->first.first == worker; ++it) {
    const StageIndex stage = it->first.second;
    const Share share = it->second;  // Close changes it
    for (const auto* cells : {&share.open, &share.folded}) {
      for (const Microbatch m : *cells) Close(m, stage);
    }
  }
}

void Ledger::HandOver(const WorkerId& donor, const WorkerId& heir) {
  for (std::uint64_t s = 0; s < stages(); ++s) {
    const Share* share = FindShare(StageIndex(s), donor);
    if (share == nullptr) continue;
    for (const Microbatch m : std::set<Microbatch>(share->folded)) {
      Cell cell = this->cell(m, StageIndex(s));
      cell.worker = heir;
      Set(m, StageIndex(s), std::move(cell));
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
      Close(Microbatch(m), stated.stage);
    } else if (!folded && claimed) {
      MakeFolded(Microbatch(m), stated.stage, cell.loss);
    }
  }
  return disjoint;
}

bool Ledger::StageComplete(StageIndex stage) const {
  return folded_.at(stage.value) == microbatches();
}

const Ledger::Share* Ledger::FindShare(StageIndex stage, const WorkerId& worker) const {
  const auto found = shares_.find({worker, stage});
  return found == shares_.end() ? nullptr : &found->second;
}

bool Ledger::HasOpen(const WorkerId& worker) const {
  for (auto it = shares_.lower_bound({worker, StageIndex(0)});
       it != shares_.end() && it->first.first == worker; ++it) {
    if (!it->second.open.empty()) return true;
  }
  return false;
}

bool Ledger::Feeds(StageIndex stage, const WorkerId& worker) const {
  const Share* share = FindShare(stage, worker);
  return share != nullptr && share->feeds > 0;
}

bool Ledger::HasFolded(StageIndex stage, const WorkerId& worker) const {
  const Share* share = FindShare(stage, worker);
  return share != nullptr && !share->folded.empty();
}

ClaimSet Ledger::ClaimsOf(StageIndex stage, const WorkerId& worker) const {
  const Share* share = FindShare(stage, worker);
  if (share == nullptr) return {stage, {}};
  return {stage, {share->folded.begin(), share->folded.end()}};
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
