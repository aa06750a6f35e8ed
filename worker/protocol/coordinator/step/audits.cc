#include "worker/protocol/coordinator/step/audits.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace swarm::protocol {
namespace {

using Kind = Verdict::Kind;

/// Executions of one microbatch for one audit. One decides nearly all; another one where results
/// differ; the others are for those that are lost.
constexpr int kRunsMax = 4;
/// A disagreement that nobody can decide makes a worker's microbatches so many times likelier to be
/// audited.
constexpr double kSuspicion = 10;

std::string Join(const std::vector<WorkerId>& workers) {
  std::string text;
  for (const WorkerId& id : workers) text += (text.empty() ? "" : ", ") + id.value;
  return text;
}

std::string TextOf(Step step, Microbatch microbatch, const Verdict& verdict) {
  return std::string(verdict.part == TaskPart::kForward ? "forward" : "backward") +
         " of microbatch " + std::to_string(microbatch.value) + " of step " +
         std::to_string(step.value) + " at stage " + std::to_string(verdict.stage.value);
}

}  // namespace

double Audits::FractionFor(const Ledger::Row& row) const {
  int most = 0;
  for (const Ledger::Cell& cell : row) {
    const auto found = suspicions_.find(cell.worker);
    if (found != suspicions_.end()) most = std::max(most, found->second);
  }
  return job_.options.audit_fraction * std::pow(kSuspicion, most);
}

void Audits::OnIssued(Step step, Microbatch microbatch) {
  if (job_.options.audit_fraction <= 0) return;
  const Ledger::Row& row = steps_.Find(step)->ledger.row(microbatch);
  const Name name{step, microbatch};
  if (audits_.contains(name)) return;
  if (!IsAudited(job_.options.audit_seed, step, microbatch, FractionFor(row))) return;
  if (!NeedsOther(name, Audit(), {})) return;
  audits_.try_emplace(name);
  wanted_.insert(name);
}

void Audits::Issue(Turn& turn) {
  for (auto it = wanted_.begin(); it != wanted_.end();) {
    const Name name = *it;
    Audit& audit = audits_.at(name);
    const auto route = router_.DrawOther(Involved(name, audit));
    if (!route) {
      ++it;
      continue;
    }
    Forward frame;
    for (const WorkerId& id : *route) {
      frame.hops.push_back({id, job_.NextAttempt(), /*fold=*/false});
    }
    frame.version = job_.VersionFor(name.first);
    frame.end = StageIndex(job_.stages());
    frame.key = {job_.generation, name.first, name.second, StageIndex(0),
                 frame.hops.front().attempt};
    audit.run = {.hops = frame.hops, .done = {}, .progress = turn.now};
    ++audit.runs;
    turn.orders.push_back(order::Issue{std::move(frame)});
    it = wanted_.erase(it);
  }
}

bool Audits::OnReport(const WorkerId& from, const TaskReport& report, Timepoint now) {
  using Event = TaskReport::Event;
  const TaskKey& key = report.key;
  const Name name{key.step, key.microbatch};
  const auto found = audits_.find(name);
  if (found == audits_.end() || key.stage.value >= job_.stages()) return false;
  Audit& audit = found->second;
  if (report.digests.input != 0) {
    const TaskPart part =
        report.event == Event::kForwarded ? TaskPart::kForward : TaskPart::kBackward;
    const Testimony said{key.stage, part, report.digests.input, report.digests.output, from};
    // What is computed again after the audit has ended is compared with what others had before.
    if (Add(said, &audit.testimonies) && std::exchange(audit.ended, false)) audit.runs = 0;
    if (!audit.ended) news_.insert(name);
  }
  if (!audit.run) return false;
  const Hop& hop = audit.run->hops[key.stage.value];
  if (hop.worker != from || hop.attempt != key.attempt) return false;
  audit.run->progress = now;
  if (report.event == Event::kPropagated && audit.run->done.insert(key.stage).second) {
    router_.Release(from);
    if (audit.run->done.size() == job_.stages()) audit.run.reset();
  }
  return true;
}

void Audits::OnTokensAwaited(const TaskKey& key, Timepoint now) {
  const auto found = audits_.find({key.step, key.microbatch});
  if (found == audits_.end() || !found->second.run) return;
  Run& run = *found->second.run;
  if (run.hops.front().attempt == key.attempt) run.progress = now;
}

std::vector<std::set<WorkerId>> Audits::Involved(const Name& name, const Audit& audit) const {
  std::vector<std::set<WorkerId>> involved(job_.stages());
  const Ledger::Row& row = steps_.Find(name.first)->ledger.row(name.second);
  for (std::size_t s = 0; s < row.size(); ++s) involved[s].insert(row[s].worker);
  for (const Testimony& t : audit.testimonies) involved[t.stage.value].insert(t.worker);
  return involved;
}

bool Audits::NeedsOther(const Name& name, const Audit& audit, const Verdict& verdict) const {
  const std::vector<std::set<WorkerId>> involved = Involved(name, audit);
  const std::vector<std::vector<WorkerId>> replicas = members_.RoutableReplicas();
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    const bool useful = verdict.kind == Kind::kDisagree
                            ? verdict.stage == StageIndex(s)
                            : !IsConfirmed(audit.testimonies, StageIndex(s));
    if (useful && std::ranges::any_of(
                      replicas[s], [&](const WorkerId& id) { return !involved[s].contains(id); })) {
      return true;
    }
  }
  return false;
}

bool Audits::IsFolded(const Name& name) const {
  return std::ranges::all_of(
      steps_.Find(name.first)->ledger.row(name.second),
      [](const Ledger::Cell& cell) { return cell.state == Ledger::Cell::State::kFolded; });
}

void Audits::Conclude(Turn& turn) {
  for (const Name& name : std::exchange(news_, {})) {
    const auto found = audits_.find(name);
    if (found != audits_.end() && !Judge(name, found->second, turn)) return;
  }
}

bool Audits::Judge(const Name& name, Audit& audit, Turn& turn) {
  const Verdict verdict = protocol::Judge(audit.testimonies);
  if (verdict.kind == Kind::kConvicted) {
    Convict(name, verdict, turn);
    return false;
  }
  const bool differs = verdict.kind == Kind::kDisagree;
  if (differs && !std::exchange(audit.told, true)) {
    turn.Report(EventKind::kAuditDiffers,
                TextOf(name.first, name.second, verdict) + ": the results of " +
                    Join(verdict.workers) + " differ",
                {.stage = verdict.stage});
  }
  if (audit.run || wanted_.contains(name)) return true;
  // What has not been folded may yet confirm the audit's results.
  if (!differs && !IsFolded(name)) return true;
  if (audit.runs < kRunsMax && NeedsOther(name, audit, verdict)) {
    wanted_.insert(name);
    turn.advance = true;
  } else if (IsFolded(name)) {
    End(name, audit, verdict, turn);
  }
  return true;
}

void Audits::Convict(const Name& name, const Verdict& verdict, Turn& turn) {
  ++job_.counts.audits;
  ++job_.counts.audits_wrong;
  for (const WorkerId& id : verdict.workers) {
    const auto agreed = agreed_.find(id);
    const std::string why =
        "an audit found its " + TextOf(name.first, name.second, verdict) + " to be wrong; " +
        (agreed == agreed_.end() ? "all that it has computed is suspect"
                                 : "what it has computed since step " +
                                       std::to_string(agreed->second.value) + " is suspect");
    turn.Report(EventKind::kAuditDiffers, id.value + ": " + why,
                {.worker = id, .stage = verdict.stage});
    job_.convicted.insert(id);
    turn.departures.push_back({id, why, /*connected=*/true, EvictionCause::kWrongResult,
                               /*for_good=*/true});
  }
  turn.miscomputed = true;
}

void Audits::End(const Name& name, Audit& audit, const Verdict& verdict, Turn& turn) {
  audit.ended = true;
  turn.advance = true;
  const bool again = std::exchange(audit.counted, true);
  const bool known = std::exchange(audit.verdict, verdict) == verdict;
  bool confirmed = false;
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    if (!IsConfirmed(audit.testimonies, StageIndex(s))) continue;
    confirmed = true;
    for (const Testimony& t : audit.testimonies) {
      if (t.stage == StageIndex(s)) agreed_[t.worker] = name.first;
    }
  }
  if (verdict.kind == Kind::kDisagree && !known) {
    for (const WorkerId& id : verdict.workers) ++suspicions_[id];
    turn.Report(EventKind::kAuditDiffers,
                TextOf(name.first, name.second, verdict) + ": nobody can decide between " +
                    Join(verdict.workers) + ", whose next microbatches are audited more often",
                {.stage = verdict.stage});
  }
  if (again) return;
  ++job_.counts.audits;
  if (verdict.kind == Kind::kDisagree || !confirmed) ++job_.counts.audits_undecided;
}

void Audits::Check(Duration patience, Turn& turn) {
  for (auto& [name, audit] : audits_) {
    if (audit.ended) continue;
    if (audit.run && turn.now - audit.run->progress >= patience * (1 << audit.runs)) Stop(audit);
    if (!audit.run) news_.insert(name);
  }
  Conclude(turn);
}

void Audits::Lose(const WorkerId& worker) {
  for (auto& [name, audit] : audits_) {
    if (!audit.run ||
        std::ranges::find(audit.run->hops, worker, &Hop::worker) == audit.run->hops.end()) {
      continue;
    }
    Stop(audit);
    news_.insert(name);
  }
}

void Audits::Stop(Audit& audit) {
  for (std::uint64_t s = 0; s < audit.run->hops.size(); ++s) {
    if (!audit.run->done.contains(StageIndex(s))) router_.Release(audit.run->hops[s].worker);
  }
  audit.run.reset();
}

void Audits::Forget(const Name& name) {
  const auto found = audits_.find(name);
  if (found->second.run) Stop(found->second);
  news_.erase(name);
  wanted_.erase(name);
  audits_.erase(found);
}

void Audits::BeginAgain(Version version) {
  for (auto it = audits_.begin(); it != audits_.end();) {
    const Name name = it++->first;
    if (job_.VersionFor(name.first) >= version) Forget(name);
  }
}

void Audits::OnCommitted() {
  while (!audits_.empty() && audits_.begin()->first.first.value < job_.version.value) {
    Forget(Name(audits_.begin()->first));
  }
}

void Audits::Clear() {
  audits_.clear();
  news_.clear();
  wanted_.clear();
}

bool Audits::Holds(Step step) const {
  if (!job_.options.rules.commit_awaits_audits) return false;
  for (auto it = audits_.lower_bound({step, Microbatch()});
       it != audits_.end() && it->first.first == step; ++it) {
    if (!it->second.ended) return true;
  }
  return false;
}

}  // namespace swarm::protocol
