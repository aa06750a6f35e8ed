#include "worker/protocol/coordinator/taking_over.h"

#include <algorithm>
#include <set>

#include "worker/protocol/roster.h"

namespace swarm::protocol {

void TakingOver::NoteArrival(const WorkerId& worker, Timepoint now) {
  if (came_.insert(worker).second) last_came_ = now;
}

bool TakingOver::OnHolding(const WorkerId& from, const Holding& holding, Turn& turn) {
  if (job_.phase != Phase::kTakingOver) {
    if (!members_.Has(from)) {
      turn.Tell(from, Shutdown{job_.options.term, "the job went on without it", true});
    }
    return false;
  }
  if (holding.term != job_.options.term || holding.self.id != from) return false;
  NoteArrival(from, turn.now);
  holdings_[from] = holding;
  return true;
}

void TakingOver::Lose(const Departure& departure, Turn& turn) {
  if (holdings_.erase(departure.worker) == 0 || !departure.connected) return;
  turn.Tell(departure.worker, Shutdown{job_.options.term, departure.why, true});
}

const Roster* TakingOver::FindNewestRoster() const {
  const Roster* newest = nullptr;
  for (const auto& [id, holding] : holdings_) {
    const Roster& roster = holding.roster;
    // A generation that was begun, even if few have heard of it, ends those before it (rule 19).
    if (roster.members.empty() || roster.generation != job_.generation) continue;
    if (newest == nullptr || newest->epoch < roster.epoch) newest = &roster;
  }
  return newest;
}

bool TakingOver::IsLate(const Roster* roster, Timepoint now) const {
  std::set<StageIndex> held;
  for (std::uint64_t s = 0; roster != nullptr && s < job_.stages(); ++s) {
    for (const Member& member : roster->members) {
      if (holdings_.contains(member.id)) held.insert(member.stage);
    }
  }
  const Patience& patience = job_.options.patience;
  const Duration silence = now - std::max(job_.phase_since, last_came_);
  const std::size_t members = roster == nullptr ? 0 : roster->members.size();
  return silence >= (held.size() == job_.stages() ? patience.takeover : patience.takeover_last) ||
         now - job_.phase_since >=
             patience.takeover_last + static_cast<int>(members) * patience.takeover_member;
}

Version TakingOver::NewestHeld(const Roster& roster) const {
  Version newest;
  for (const Member& member : roster.members) {
    const auto holding = holdings_.find(member.id);
    if (holding == holdings_.end() || holding->second.generation != job_.generation) continue;
    newest = std::max(newest, holding->second.version);
    for (const CommitRecord& record : holding->second.records) {
      newest = std::max(newest, Version(record.step.value + 1));
    }
  }
  return newest;
}

TakingOver::Verdict TakingOver::Decide(Turn& turn) {
  if (job_.phase != Phase::kTakingOver) return Verdict::kWait;
  const Roster* roster = FindNewestRoster();
  const bool complete =
      roster != nullptr &&
      std::all_of(roster->members.begin(), roster->members.end(),
                  [&](const Member& member) { return holdings_.contains(member.id); });
  if (!complete && !IsLate(roster, turn.now)) return Verdict::kWait;
  const bool nothing = roster == nullptr || NewestHeld(*roster) < job_.version;
  if (nothing) {
    for (const auto& [id, holding] : holdings_) {
      turn.Tell(id, Shutdown{job_.options.term, "there is nothing to go on", true});
    }
    job_.Enter(Phase::kStageLost, turn.now);
  } else {
    Adopt(Roster(*roster), turn);
  }
  holdings_.clear();
  return nothing ? Verdict::kNothing : Verdict::kAdopted;
}

void TakingOver::OnCommitted(const WorkerId& from, const Committed& committed) {
  const auto known = holdings_.find(from);
  if (known == holdings_.end() || known->second.generation != committed.generation) return;
  Version& version = known->second.version;
  version = std::max(version, Version(committed.step.value + 1));
}

void TakingOver::Adopt(const Roster& roster, Turn& turn) {
  members_.ContinueFrom(roster.epoch);
  AdoptMembers(roster, turn);
  AdoptRecords(turn);
  for (const auto& [id, holding] : holdings_) {
    const bool current = holding.version.Next() >= job_.version;
    members_.Become(members_.At(id), current ? Role::kReady : Role::kCatchingUp);
  }
  for (const Member& member : roster.members) {
    if (members_.Has(member.id)) continue;
    evictions_.Note(member, true, EvictionCause::kSilent, "did not answer the new trainer",
                    turn.now);
  }
  const double seconds = ToSeconds(turn.now - job_.phase_since);
  job_.Enter(Phase::kTraining, turn.now);
  turn.Report(EventKind::kTookOver,
              std::to_string(holdings_.size()) + " workers of " +
                  std::to_string(roster.members.size()) + ", at version " +
                  std::to_string(job_.version.value),
              {.seconds = seconds});
  members_.PublishRoster({}, turn);
  commits_.Repeat(turn);
  AdoptSteps(turn);
}

void TakingOver::AdoptMembers(const Roster& roster, Turn& turn) {
  for (auto it = holdings_.begin(); it != holdings_.end();) {
    const auto held = it++;
    const auto& [id, holding] = *held;
    const bool counts =
        holding.generation == job_.generation &&
        (FindMember(roster, id) != nullptr || !job_.options.rules.takeover_keeps_roster);
    if (counts) {
      members_.Erase(id);
      Worker& worker = members_.Add(holding.self);
      members_.SetVersion(worker, holding.version);
      worker.since = turn.now;
    } else {
      turn.Tell(id, Shutdown{job_.options.term, "the job went on without it", true});
      holdings_.erase(held);
    }
  }
}

void TakingOver::AdoptRecords(Turn& turn) {
  const bool keeps_record = job_.options.rules.takeover_keeps_record;
  std::map<Step, CommitRecord> records, past;
  for (const auto& [id, holding] : holdings_) {
    for (const CommitRecord& record : holding.past) past.try_emplace(record.step, record);
    job_.version = std::max(job_.version, holding.version);
    if (!keeps_record) continue;
    for (const CommitRecord& record : holding.records) records[record.step] = record;
  }
  for (const auto& [id, holding] : holdings_) {
    if (!keeps_record) job_.version = std::min(job_.version, holding.version);
  }
  for (const auto& [step, record] : past) {
    if (!records.contains(step)) turn.orders.push_back(order::StepDone{record});
  }
  for (const auto& [step, record] : records) {
    job_.version = std::max(job_.version, Version(step.value + 1));
    commits_.Adopt(record);
    turn.orders.push_back(order::StepDone{record});
  }
  AdoptHolders(records);
}

void TakingOver::AdoptHolders(const std::map<Step, CommitRecord>& records) {
  const auto last =
      job_.version.value == 0 ? records.end() : records.find(Step(job_.version.value - 1));
  if (last == records.end()) {
    // Who has applied a record knows it. So the version is the one that was loaded.
    for (const auto& [id, holding] : holdings_) {
      const bool whole = holding.holds && holding.version == job_.version;
      if (whole) members_.holders().AddWhole(id, holding.self.stage);
    }
    return;
  }
  std::set<WorkerId> gone;
  for (const GroupResult& result : last->second.groups) {
    for (const PartHolders& holders : result.holders) {
      for (const WorkerId& id : {holders.first, holders.second}) {
        if (!Holds(id, last->second, result)) gone.insert(id);
      }
    }
  }
  members_.holders().OnCommitted(last->second, gone);
}

bool TakingOver::Holds(const WorkerId& id, const CommitRecord& record,
                       const GroupResult& result) const {
  const auto found = holdings_.find(id);
  if (found == holdings_.end()) return false;
  const Holding& holding = found->second;
  if (holding.version.value > record.step.value) return holding.holds;
  const auto step = std::ranges::find(holding.steps, record.step, &HeldStep::step);
  return step != holding.steps.end() &&
         std::ranges::any_of(step->reduces, [&](const HeldReduce& reduce) {
           return reduce.group == result.group && reduce.k == result.k;
         });
}

void TakingOver::AdoptSteps(Turn& turn) {
  for (std::uint64_t t = job_.version.value; t < job_.OpenStepsEnd(); ++t) {
    AdoptStep(Step(t), steps_.Open(Step(t)), turn);
  }
}

void TakingOver::AdoptStep(Step step, StepState& state, Turn& turn) {
  std::map<WorkerId, const HeldStep*> parts;
  for (const auto& [id, holding] : holdings_) {
    for (const HeldStep& held : holding.steps) {
      if (held.step != step) continue;
      parts.try_emplace(id, &held);
      state.begun |= !held.folded.empty();
    }
  }
  for (const ReduceGroup& group : job_.groups) {  // the stages of a group share one level
    std::uint64_t level = 0;
    for (const auto& [id, held] : parts) {
      if (group.Has(members_.At(id).member.stage)) level = std::max(level, held->level);
    }
    for (const StageIndex s : group.stages) {
      state.levels[s.value] = std::max(state.levels[s.value], level);
    }
  }
  for (const auto& [id, worker] : members_.all()) {
    if (!worker.InRoster()) continue;
    const auto part = parts.find(id);
    const std::uint64_t level = part == parts.end() ? 0 : part->second->level;
    bool fits = level == state.levels[worker.member.stage.value];
    if (part != parts.end()) {
      if (!part->second->reduces.empty()) {
        turn.Tell(id, Thaw{job_.options.term, job_.generation, step});
      }
      // What the earlier trainer's audits have heard went with it. So the contributions are made
      // again, under this one's.
      if (job_.options.audit_fraction > 0) fits = fits && part->second->folded.empty();
      for (const Contribution& c : part->second->folded) {
        fits = fits && state.ledger.Adopt(worker.member.stage, id, c);
      }
    }
    if (!fits) steps_.VoidWorker(id, step, state, turn);
  }
}

}  // namespace swarm::protocol
