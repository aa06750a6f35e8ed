#include "worker/protocol/coordinator/step/commits.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "worker/protocol/commit.h"
#include "worker/protocol/parts.h"

namespace swarm::protocol {
namespace {

bool IsFinite(const Reduced& reduced) {
  return std::all_of(reduced.norms.begin(), reduced.norms.end(),
                     [](const TensorNorm& norm) { return std::isfinite(norm.squared); });
}

/// All participants report the same, except those that have folded something that is not finite:
/// the report of such a participant counts.
const Reduced& ChooseReport(const std::map<WorkerId, Reduced>& reports) {
  const auto odd = std::find_if(reports.begin(), reports.end(),
                                [](const auto& entry) { return !IsFinite(entry.second); });
  return (odd != reports.end() ? odd : reports.begin())->second;
}

}  // namespace

bool Commits::CommitIfReduced(Turn& turn) {
  const Step step(job_.version.value);
  StepState* state = steps_.Find(step);
  if (state == nullptr) return false;
  CommitInputs inputs{.generation = job_.generation, .step = step};
  for (const ReduceGroup& group : job_.groups) {
    const ReduceState& reduce = state->reduces[group.index];
    const std::size_t needed =
        job_.options.rules.commit_needs_all ? reduce.participants.size() : std::size_t{1};
    if (!reduce.k || reduce.reports.size() < needed) return false;
    const std::uint64_t level = state->levels[group.stages.front().value];
    if (!reduce.holders.empty()) {
      inputs.groups.push_back(
          CombineReports({group.index, *reduce.k, {}, level}, reduce.holders, reduce.reports));
      continue;
    }
    const Reduced& report = ChooseReport(reduce.reports);
    inputs.groups.push_back({{group.index, *reduce.k, report.digest, level}, report.norms});
  }
  const bool known =
      !job_.options.rules.commit_awaits_states || members_.HaveReported(job_.VersionFor(step));
  if (!known) return false;
  inputs.losses = state->ledger.Losses();
  inputs.max_grad_norm = job_.options.max_grad_norm;
  inputs.learning_rate = job_.options.learning_rate(step);
  if (job_.options.counted_part) inputs.counted_part = job_.options.counted_part(step);
  states_.Settle(job_.VersionFor(step));
  const CommitRecord record = DecideCommit(inputs);
  members_.holders().OnCommitted(record);
  Announce(record, turn);
  const double seconds = ToSeconds(turn.now - last_commit_);
  seconds_per_step_ = seconds_per_step_ == 0 ? seconds : 0.9 * seconds_per_step_ + 0.1 * seconds;
  last_commit_ = turn.now;
  last_record_ = record;
  NoteSums(*state);
  order::StepDone done{record, seconds, state->boundary_bytes};
  done.times = TakeTimes(*state);
  for (const ReduceGroup& group : job_.groups) {
    done.claims.push_back(std::move(state->reduces[group.index].claims));
  }
  done.redone = state->ledger.redone();
  turn.orders.push_back(std::move(done));
  steps_.Erase(step);
  job_.version = job_.version.Next();
  if (record.skip) {
    turn.Report(EventKind::kStepSkipped, "the gradients of step " + std::to_string(step.value) +
                                             " are not finite; the weights stay");
  }
  return true;
}

void Commits::NoteSums(const StepState& state) {
  std::map<WorkerId, std::size_t> sums;  // that a worker took part in
  for (const ReduceGroup& group : job_.groups) {
    for (const WorkerId& id : state.reduces.at(group.index).participants) ++sums[id];
  }
  for (const auto& [id, count] : sums) {
    Worker* worker = members_.Find(id);
    if (worker == nullptr) continue;
    const auto needed = std::ranges::count_if(
        job_.groups, [&](const ReduceGroup& group) { return group.Has(worker->member.stage); });
    if (std::cmp_greater_equal(count, needed)) worker->summed_until = job_.version.Next();
  }
}

std::vector<order::StageTime> Commits::TakeTimes(const StepState& state) {
  std::vector<order::StageTime> times(job_.stages());
  for (std::uint64_t s = 0; s < times.size(); ++s) {
    order::StageTime& time = times[s];
    time.task_seconds = state.task_seconds[s];
    for (const WorkerId& id : members_.Replicas(StageIndex(s))) {
      Worker& worker = members_.At(id);
      ++time.workers;
      if (!worker.busy_before) continue;
      time.busy_seconds += worker.busy_seconds - *worker.busy_before;
      worker.busy_before = worker.busy_seconds;
    }
  }
  for (const ReduceGroup& group : job_.groups) {
    const ReduceState& reduce = state.reduces.at(group.index);
    if (reduce.asked == Timepoint()) continue;  // by the earlier trainer
    const double seconds = ToSeconds(reduce.progress - reduce.asked);
    for (const StageIndex stage : group.stages) {
      double& most = times[stage.value].reduce_seconds;
      most = std::max(most, seconds);  // the sums of a stage go on beside each other
    }
  }
  return times;
}

void Commits::Announce(const CommitRecord& record, Turn& turn) {
  Step keep_from(job_.version.value);
  std::vector<Commit> commits;  // by stage
  for (std::uint64_t s = 0; s < job_.stages(); ++s) {
    const Step keep = joins_.KeepFrom(StageIndex(s));
    keep_from = std::min(keep_from, keep);
    commits.push_back({job_.options.term, record, keep});
  }
  for (const auto& [id, worker] : members_.all()) {
    // A worker that is joining replays the commits that are decided meanwhile.
    if (!worker.InRoster() && !worker.welcomed) continue;
    turn.Tell(id, commits[worker.member.stage.value]);
  }
  job_.records.push_back(record);
  while (!job_.records.empty() && job_.records.front().step < keep_from) job_.records.pop_front();
  states_.ForgetBefore(Version(keep_from.value));
}

void Commits::OnApplied(const WorkerId& from, const Committed& committed, Turn& turn) {
  Worker& worker = members_.At(from);
  const Version version(committed.step.value + 1);
  const StageIndex stage = worker.member.stage;
  members_.SetVersion(worker, std::max(worker.version(), version));
  worker.kept_from = committed.kept_from;
  const bool differ = states_.Add(from, stage, version, committed.state);
  turn.progressed = true;
  if (members_.leaving().contains(from)) turn.rested.push_back(from);
  if (CompareParts(from, version, committed.parts, turn)) return;
  if (differ) CompareStates(version, stage, turn);
}

bool Commits::CompareParts(const WorkerId& from, Version version,
                           const std::vector<PartDigest>& parts, Turn& turn) {
  const auto different = states_.AddParts(from, version, parts);
  if (different.empty() || !job_.options.rules.compare_parts) return false;
  if (trouble_.Note(from, job_.version)) {
    turn.Fail("two holders of a part differ, and it is not the first time",
              FailureClass::kDiverged);
    return true;
  }
  turn.distrusted = version;
  std::set<WorkerId> others{from};
  for (const auto& [name, holders] : different) {
    members_.holders().Lose(name);
    others.insert(holders.begin(), holders.end());
  }
  for (const WorkerId& id : others) {
    if (!members_.Has(id)) continue;
    turn.Evict(id,
               "it and another holder of a part differ at version " + std::to_string(version.value),
               EvictionCause::kWrongState);
  }
  return true;
}

void Commits::CompareStates(Version version, StageIndex stage, Turn& turn) {
  const auto ready = members_.ReadyReplicas(stage);
  std::map<Digest, std::size_t> camps;  // of the ready replicas
  std::size_t reports = 0;
  const StateReports::States& reported = states_.Of(version, stage);
  for (const WorkerId& id : ready) {
    const auto report = reported.find(id);
    if (report == reported.end()) continue;
    ++camps[report->second];
    ++reports;
  }
  if (camps.empty()) return;
  const auto largest = std::max_element(
      camps.begin(), camps.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool most = largest->second * 2 > ready.size();
  if (!most && reports < ready.size()) return;  // the others have yet to report
  const std::string at = " at version " + std::to_string(version.value);
  bool noted = false;
  for (const auto& [id, state] : reported) {
    if (most && state == largest->first) continue;
    // Of a tie nobody knows who is right: all go, and that is one worker's trouble.
    const bool counts = most || !std::exchange(noted, true);
    if (counts && trouble_.Note(id, job_.version)) {
      turn.Fail("the replicas of stage " + std::to_string(stage.value) + " hold different weights" +
                    at + ", and it is not the first time",
                FailureClass::kDiverged);
      return;
    }
    if (members_.At(id).role() == Role::kReady) turn.distrusted = version;
    turn.Evict(id, "it holds other weights than the replicas of its stage," + at,
               EvictionCause::kWrongState);
  }
}

void Commits::Adopt(const CommitRecord& record) {
  job_.records.push_back(record);
  last_record_ = record;
}

void Commits::Repeat(Turn& turn) const {
  for (const CommitRecord& record : job_.records) {
    for (const auto& [id, worker] : members_.all()) {
      if (!worker.InRoster()) continue;
      turn.Tell(id, Commit{job_.options.term, record, joins_.KeepFrom(worker.member.stage)});
    }
  }
}

void Commits::Clear() {
  states_.Clear();
  job_.records.clear();
}

}  // namespace swarm::protocol
