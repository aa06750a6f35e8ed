// Coordinator: reduces, commits, checkpoints, the end of the job.
#include <algorithm>
#include <cmath>
#include <utility>

#include "worker/protocol/coordinator/coordinator.h"

namespace swarm::protocol {
namespace {

constexpr int kFinalCheckpointTries = 5;

std::string ToText(Version version) { return std::to_string(version.value); }

bool IsFinite(const Reduced& reduced) {
  return std::all_of(reduced.norms.begin(), reduced.norms.end(),
                     [](const TensorNorm& norm) { return std::isfinite(norm.squared); });
}

/// All report the same, but for those who have folded something that is not finite: theirs counts.
const Reduced& ChooseReport(const std::map<WorkerId, Reduced>& reports) {
  const auto odd = std::find_if(reports.begin(), reports.end(),
                                [](const auto& entry) { return !IsFinite(entry.second); });
  return (odd != reports.end() ? odd : reports.begin())->second;
}

}  // namespace

void Coordinator::ReduceWhatIsComplete(Step step, StepState& state, Timepoint now, Orders& orders) {
  for (const ReduceGroup& group : groups_) {
    if (state.groups[group.index].k) continue;
    const bool complete = std::all_of(group.stages.begin(), group.stages.end(), [&](StageIndex s) {
      return state.ledger.StageComplete(s) && !IsVoiding(state, s) && !IsHandedOver(step, s);
    });
    if (complete) AskForReduce(step, state, group, now, orders);
  }
}

void Coordinator::AskForReduce(Step step, StepState& state, const ReduceGroup& group, Timepoint now,
                               Orders& orders) {
  GroupState& progress = state.groups[group.index];
  progress.k = NextAttempt();
  progress.since = now;
  progress.reports.clear();
  progress.participants.clear();
  Reduce reduce{options_.term, generation_, step, group.index, *progress.k, {}, 0};
  for (const StageIndex stage : group.stages) {
    const auto replicas = Replicas(stage);
    for (Participant& participant : state.ledger.Claims(stage, replicas)) {
      reduce.participants.push_back(std::move(participant));
    }
    reduce.level = std::max(reduce.level, state.levels[stage.value]);
    progress.participants.insert(progress.participants.end(), replicas.begin(), replicas.end());
  }
  for (const WorkerId& worker : progress.participants) {
    orders.push_back(order::Tell{worker, reduce});
  }
  progress.claims = std::move(reduce.participants);
}

void Coordinator::OnReduceRefused(const WorkerId& from, const ReduceRefused& refused, Timepoint now,
                                  Orders& orders) {
  const auto it = steps_.find(refused.step);
  if (refused.generation != generation_ || it == steps_.end()) return;
  StepState& state = it->second;
  GroupState& group = state.groups[refused.group];
  const StageIndex stage = workers_.at(from).member.stage;
  if (group.k != refused.k || refused.folded.stage != stage) return;
  orders.push_back(order::Event{"ReduceRefused", from.value + " states another fold set for step " +
                                                     std::to_string(refused.step.value)});
  const bool same = state.ledger.ClaimsOf(stage, from) == refused.folded;
  ThawStage(refused.step, state, stage, orders);
  group.k.reset();
  // The same set at another scale, or a set that overlaps with others', is of no use.
  if (same || !state.ledger.Reconcile(from, refused.folded)) {
    VoidWorker(from, refused.step, state, now, orders);
  }
  Advance(now, orders);
}

void Coordinator::OnReduced(const WorkerId& from, const Reduced& reduced, Timepoint now,
                            Orders& orders) {
  const auto it = steps_.find(reduced.step);
  if (reduced.generation != generation_ || it == steps_.end()) return;
  GroupState& group = it->second.groups[reduced.group];
  const bool takes_part = std::find(group.participants.begin(), group.participants.end(), from) !=
                          group.participants.end();
  if (group.k != reduced.k || !takes_part) return;
  if (!group.reports.empty() && group.reports.begin()->second.digest != reduced.digest) {
    Fail("the sums of step " + std::to_string(reduced.step.value) + " differ between " +
             from.value + " and " + group.reports.begin()->first.value,
         FailureClass::kDiverged, orders);
    return;
  }
  group.reports[from] = reduced;
  // One alone sums nothing: that says nothing of what comes once there are two.
  if (group.reports.size() == group.participants.size() && group.participants.size() > 1) {
    const double seconds = ToSeconds(now - group.since);
    reduce_seconds_ = reduce_seconds_ == 0 ? seconds : 0.9 * reduce_seconds_ + 0.1 * seconds;
  }
  Advance(now, orders);
}

bool Coordinator::CommitIfReduced(Timepoint now, Orders& orders) {
  // A validation reads the newest version: the next commit waits until it is done.
  if (evaluation_) return false;
  const auto it = steps_.find(Step(version_.value));
  if (it == steps_.end()) return false;
  StepState& state = it->second;
  CommitInputs inputs{generation_,
                      it->first,
                      {},
                      state.ledger.Losses(),
                      options_.max_grad_norm,
                      options_.learning_rate(it->first)};
  for (const ReduceGroup& group : groups_) {
    const GroupState& progress = state.groups[group.index];
    const std::size_t needed =
        options_.rules.commit_needs_all ? progress.participants.size() : std::size_t{1};
    if (!progress.k || progress.reports.size() < needed) return false;
    const Reduced& report = ChooseReport(progress.reports);
    const std::uint64_t level = state.levels[group.stages.front().value];
    inputs.groups.push_back({{group.index, *progress.k, report.digest, level}, report.norms});
  }
  const CommitRecord record = DecideCommit(inputs);
  Step keep_from(version_.value);
  std::map<StageIndex, Commit> commits;
  for (std::uint64_t s = 0; s < stages(); ++s) {
    const Step keep = KeepFrom(StageIndex(s));
    keep_from = std::min(keep_from, keep);
    commits.emplace(StageIndex(s), Commit{options_.term, record, keep});
  }
  for (const auto& [id, worker] : workers_) {
    // Who is joining replays what is decided meanwhile.
    if (!worker.InRoster() && !worker.welcomed) continue;
    orders.push_back(order::Tell{id, commits.at(worker.member.stage)});
  }
  counts_.recoveries += std::exchange(recovering_, 0);
  records_.push_back(record);
  while (!records_.empty() && records_.front().step < keep_from) records_.pop_front();
  const double seconds = ToSeconds(now - last_commit_);
  seconds_per_step_ = seconds_per_step_ == 0 ? seconds : 0.9 * seconds_per_step_ + 0.1 * seconds;
  last_commit_ = now;
  last_record_ = record;
  order::StepDone done{record, seconds, state.boundary_bytes};
  for (const ReduceGroup& group : groups_) {
    done.claims.push_back(std::move(state.groups[group.index].claims));
  }
  orders.push_back(std::move(done));
  steps_.erase(it);
  version_ = version_.Next();
  if (record.skip) {
    orders.push_back(order::Event{"StepSkipped", "the gradients of step " +
                                                     std::to_string(record.step.value) +
                                                     " are not finite; the weights stay"});
  }
  for (auto& [id, worker] : workers_) {
    if (worker.leave) worker.leave->parcels.erase(record.step);
  }
  AfterCommit(orders);
  return true;
}

Step Coordinator::KeepFrom(StageIndex stage) const {
  std::uint64_t keep = version_.value;
  for (const auto& [id, worker] : workers_) {
    if (worker.member.stage != stage || !(worker.InRoster() || worker.loaded)) continue;
    keep = std::min(keep, worker.version.value);
  }
  const auto join = joins_.find(stage);
  if (join != joins_.end()) keep = std::min(keep, join->second.version.value);
  return Step(keep);
}

void Coordinator::AfterCommit(Orders& orders) {
  const auto due = [&](std::uint64_t interval) {
    return interval > 0 && (version_.value % interval == 0 || version_.value == last_step_);
  };
  if (options_.validation_microbatches > 0 && due(options_.validation_interval_steps)) {
    evaluation_.emplace();
    evaluation_->version = version_;
    for (std::uint64_t m = 0; m < options_.validation_microbatches; ++m) {
      evaluation_->missing.insert(Microbatch(m));
    }
  }
  if (options_.checkpoint_uri.empty()) return;
  if (version_.value == last_step_) {
    final_checkpoint_wanted_ = true;  // waits for one that is being written
  } else if (options_.checkpoint_interval_steps > 0 &&
             version_.value % options_.checkpoint_interval_steps == 0) {
    if (checkpoint_) {
      orders.push_back(order::Event{"CheckpointDelayed",
                                    "version " + ToText(version_) + " is not written: version " +
                                        ToText(checkpoint_->version) + " is still being written"});
    } else {
      RequestCheckpoint(version_, orders);
    }
  }
}

void Coordinator::OnCommitted(const WorkerId& from, const Committed& committed, Timepoint now,
                              Orders& orders) {
  if (committed.generation != generation_) return;
  Worker& worker = workers_.at(from);
  const Version version(committed.step.value + 1);
  const StageIndex stage = worker.member.stage;
  worker.version = std::max(worker.version, version);
  while (states_.size() >= 8 * stages()) states_.erase(states_.begin());
  states_[{version, stage}][from] = committed.state;
  CompareStates(version, stage, now, orders);
  if (const auto it = workers_.find(from); it != workers_.end()) {
    CatchUp(from, it->second, now, orders);
  }
}

/// Replicas of a stage hold the same state of a version. A minority that does not comes back as
/// joiners (rule 12); without a majority nobody can tell who is right.
void Coordinator::CompareStates(Version version, StageIndex stage, Timepoint now, Orders& orders) {
  const auto ready = ReadyReplicas(stage);
  std::map<Digest, std::size_t> camps;  // of those who serve
  std::size_t reports = 0;
  const auto& reported = states_.at({version, stage});
  for (const WorkerId& id : ready) {
    const auto report = reported.find(id);
    if (report == reported.end()) continue;
    ++camps[report->second];
    ++reports;
  }
  if (camps.empty()) return;
  const auto largest = std::max_element(
      camps.begin(), camps.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (camps.size() > 1 && largest->second * 2 <= ready.size()) {
    if (reports < ready.size()) return;  // the others will tell
    Fail("the replicas of stage " + std::to_string(stage.value) +
             " hold different weights at version " + ToText(version),
         FailureClass::kDiverged, orders);
    return;
  }
  std::vector<Loss> odd;
  for (const auto& [id, state] : reported) {
    if (state == largest->first || !workers_.contains(id)) continue;
    odd.push_back(
        {id, "it holds other weights than the replicas of its stage, at version " + ToText(version),
         true, LossKind::kWrongState});
  }
  if (!odd.empty()) Evict(odd, now, orders);
}

void Coordinator::RequestCheckpoint(Version version, Orders& orders) {
  checkpoint_ = PendingCheckpoint{};
  checkpoint_->version = version;
  for (std::uint64_t s = 0; s < stages(); ++s) {
    // Replicas take turns, so that no one of them pays for all.
    const auto replicas = ReadyReplicas(StageIndex(s));
    const WorkerId& writer = replicas[version.value % replicas.size()];
    checkpoint_->writers[StageIndex(s)] = writer;
    orders.push_back(order::Tell{
        writer, WriteCheckpoint{options_.term, generation_, version, options_.checkpoint_uri}});
  }
}

void Coordinator::OnCheckpointWritten(const WorkerId& from, const CheckpointWritten& written,
                                      Timepoint now, Orders& orders) {
  if (!checkpoint_ || written.version != checkpoint_->version || checkpoint_->publishing ||
      written.generation != generation_) {
    return;
  }
  if (!written.error.empty()) {
    CheckpointOver(written.version, from.value + ": " + written.error, now, orders);
    Advance(now, orders);
    return;
  }
  checkpoint_->files[written.stage] = written.files;
  if (checkpoint_->files.size() < stages()) return;
  checkpoint_->publishing = true;
  std::vector<CheckpointFile> files;
  for (const auto& [stage, some] : checkpoint_->files) {
    files.insert(files.end(), some.begin(), some.end());
  }
  orders.push_back(order::PublishCheckpoint{checkpoint_->version, std::move(files)});
}

Orders Coordinator::OnCheckpointPublished(Version version, const std::string& error,
                                          Timepoint now) {
  Orders orders;
  if (phase_ == Phase::kFinished) return orders;
  CheckpointOver(version, error, now, orders);
  Advance(now, orders);
  return orders;
}

void Coordinator::CheckpointOver(Version version, const std::string& error, Timepoint now,
                                 Orders& orders) {
  if (!checkpoint_ || checkpoint_->version != version) return;
  checkpoint_.reset();
  const bool is_final = version.value == last_step_;
  if (error.empty()) {
    last_checkpoint_ = {version, UnixTime(now), 0, {}};
    orders.push_back(order::Event{"CheckpointWritten", "version " + ToText(version)});
    if (is_final) final_checkpoint_wanted_ = false;
    return;
  }
  last_checkpoint_.error = error;
  ++last_checkpoint_.failures;
  // A failed checkpoint never stops training; the next one is tried when it is due.
  orders.push_back(order::Event{"CheckpointFailed", "version " + ToText(version) + ": " + error});
  if (!is_final) return;
  if (final_checkpoint_tries_++ == 0) final_checkpoint_failed_ = now;
  if (final_checkpoint_tries_ >= kFinalCheckpointTries &&
      now - final_checkpoint_failed_ >= options_.last_checkpoint_patience) {
    if (stopping_ && options_.keep_workers) {  // they have all that the checkpoint would have
      const Orders end = OnStopOverdue();
      orders.insert(orders.end(), end.begin(), end.end());
      return;
    }
    Fail("trained to the end, but the last checkpoint could not be written: " + error,
         FailureClass::kStorageUnavailable, orders);
  }
}

void Coordinator::FinishIfDone(Orders& orders) {
  if (version_.value < last_step_ || evaluation_ || phase_ == Phase::kFinished) return;
  phase_ = Phase::kFinishing;
  if (checkpoint_) return;
  if (final_checkpoint_wanted_) {
    RequestCheckpoint(version_, orders);
    return;
  }
  phase_ = Phase::kFinished;
  const bool stopped_early = version_.value < options_.max_steps;
  if (!stopped_early || !options_.keep_workers) Dismiss("the job is complete", orders);
  orders.push_back(order::Finish{.succeeded = true, .stopped_early = stopped_early});
}

}  // namespace swarm::protocol
