// Coordinator: losses and repairs, rollback, takeover (docs/protocol.md, rules 9, 11, 13, 15, 19).
#include <algorithm>
#include <set>
#include <utility>

#include "worker/protocol/coordinator/coordinator.h"

namespace swarm::protocol {

using CellState = Ledger::Cell::State;

/// So often a parcel that does not come is asked for again.
constexpr int kHandOverTries = 3;

// ---- losses ----

Orders Coordinator::OnWorkerLost(const WorkerId& worker, const std::string& why, bool connected,
                                 Timepoint now) {
  Orders orders;
  if (phase_ == Phase::kFinished) return orders;
  holdings_.erase(worker);
  Evict({{worker, why, connected, connected ? LossKind::kSilent : LossKind::kDisconnected}}, now,
        orders);
  return orders;
}

/// Nothing of the worker stands in any account any more.
void Coordinator::ForgetWorker(const WorkerId& id, Orders& orders) {
  LeaveJoin(id, orders);
  for (auto& [stage, join] : joins_) {
    join.asked.erase(id);
    join.donors.erase(id);
  }
  const bool in_roster = workers_.at(id).InRoster();
  const StageIndex stage = workers_.at(id).member.stage;
  workers_.erase(id);
  for (auto& [step, state] : steps_) {
    LoseCells(state, id);
    state.voiding.erase(id);
    // A sum that it took part in has to be made without it.
    const bool takes_part =
        std::any_of(state.groups.begin(), state.groups.end(), [&](const auto& entry) {
          const auto& participants = entry.second.participants;
          return entry.second.k &&
                 std::find(participants.begin(), participants.end(), id) != participants.end();
        });
    if (in_roster && takes_part) ThawStage(step, state, stage, orders);
  }
  for (auto& [other, worker] : workers_) {
    if (!worker.leave) continue;
    std::erase_if(worker.leave->parcels, [&](const auto& parcel) {
      if (parcel.second.heir != id) return false;
      // Until there is another heir the donor goes on.
      orders.push_back(order::Tell{other, Thaw{options_.term, generation_, parcel.first}});
      return true;
    });
  }
  if (evaluation_) {
    for (auto it = evaluation_->open.begin(); it != evaluation_->open.end();) {
      const auto pass = it++;
      const auto& hops = pass->second.hops;
      if (std::none_of(hops.begin(), hops.end(), [&](const Hop& h) { return h.worker == id; })) {
        continue;
      }
      ReleaseEvaluation(pass->second);
      evaluation_->missing.insert(pass->first);
      evaluation_->open.erase(pass);
    }
  }
  if (checkpoint_ && !checkpoint_->publishing) {
    for (const auto& [written, writer] : checkpoint_->writers) {
      if (writer != id || checkpoint_->files.contains(written)) continue;
      // No sign that the storage is at fault: not counted as a try.
      orders.push_back(
          order::Event{"CheckpointFailed", "version " + std::to_string(checkpoint_->version.value) +
                                               ": " + id.value + " was lost while it wrote"});
      checkpoint_.reset();
      break;
    }
  }
}

void Coordinator::Evict(const std::vector<Loss>& losses, Timepoint now, Orders& orders) {
  bool roster_changed = false;
  for (const Loss& loss : losses) {
    const auto it = workers_.find(loss.worker);
    if (it == workers_.end()) continue;
    const bool served = it->second.role != Role::kWaiting;
    orders.push_back(
        order::Event{loss.kind == nullptr ? "WorkerLeft" : "WorkerLost",
                     loss.worker.value +
                         (served ? " of stage " + std::to_string(it->second.member.stage.value)
                                 : std::string()) +
                         ": " + loss.why});
    roster_changed |= it->second.InRoster();
    if (it->second.InRoster()) CountChange(1);
    if (loss.kind == nullptr) {
      ++counts_.leaves;
    } else {
      recovering_ += it->second.InRoster() ? 1 : 0;
      CountLoss({0, loss.worker, it->second.member.stage, loss.kind, loss.why, UnixTime(now)});
    }
    ForgetWorker(loss.worker, orders);
    orders.push_back(order::Forget{loss.worker});
    if (loss.connected) {
      orders.push_back(order::Tell{loss.worker, Shutdown{options_.term, loss.why, true}});
    }
  }
  if (phase_ == Phase::kWaiting) {
    for (auto& [id, worker] : workers_) {
      if (worker.role == Role::kWaiting) SendState(id, worker, now, orders);
    }
  }
  if (phase_ == Phase::kLoading) {
    for (std::uint64_t s = 0; s < stages(); ++s) {
      const bool staffed = std::any_of(workers_.begin(), workers_.end(), [&](const auto& w) {
        return w.second.role == Role::kLoading && w.second.member.stage.value == s;
      });
      if (!staffed) phase_ = Phase::kStageLost;
    }
    BeginGenerationIfStaffed(now, orders);
    StartIfLoaded(now, orders);
  }
  if (!IsTraining()) return;
  UpdateRouter();
  if (roster_changed) PublishRoster({}, orders);
  RollBackIfStageLost(now, orders);
  Advance(now, orders);
}

Orders Coordinator::OnBeat(const WorkerId& from, const Heartbeat& beat, Timepoint now) {
  Orders orders;
  const auto it = workers_.find(from);
  if (it == workers_.end() || !it->second.InRoster() || !IsTraining()) return orders;
  Worker& worker = it->second;
  if (beat.queued_tasks == 0 || beat.compute_progress != worker.computed ||
      worker.computed_at == Timepoint()) {
    worker.computed = beat.compute_progress;
    worker.computed_at = now;
  }
  const Duration patience =
      slowest_work_ == 0 ? options_.patience.first_microbatch
                         : std::max(options_.patience.compute, FromSeconds(20 * slowest_work_));
  if (now - worker.computed_at >= patience) {
    Evict({{from, "its device does not come to an end with its work", true, LossKind::kStuck}}, now,
          orders);
  }
  return orders;
}

void Coordinator::LoseCells(StepState& state, const WorkerId& worker) {
  for (std::uint64_t m = 0; m < state.ledger.microbatches(); ++m) {
    for (const Ledger::Cell& cell : state.ledger.row(Microbatch(m))) {
      if (cell.worker != worker) continue;
      if (cell.state == CellState::kOpen) router_.Release(worker);
      if (cell.state == CellState::kFolded) ++counts_.replays;
    }
    RowState& row = state.rows[m];
    if (row.revoking && row.revoking->worker == worker) row.revoking.reset();
  }
  state.ledger.Lose(worker);
}

/// The stage's replicas may fold into the step again; its sums will be made anew.
void Coordinator::ThawStage(Step step, StepState& state, StageIndex stage, Orders& orders) {
  bool asked = false;
  for (const ReduceGroup& group : groups_) {
    if (std::find(group.stages.begin(), group.stages.end(), stage) == group.stages.end()) continue;
    GroupState& progress = state.groups[group.index];
    asked |= progress.k.has_value();
    progress.k.reset();
    progress.reports.clear();
  }
  if (!asked) return;
  for (const WorkerId& id : Replicas(stage)) {
    orders.push_back(order::Tell{id, Thaw{options_.term, generation_, step}});
  }
}

void Coordinator::OnMissing(const WorkerId& from, const Missing& missing, Orders& orders) {
  const TaskKey& source = missing.source;
  const auto it = steps_.find(source.step);
  if (source.generation != generation_ || it == steps_.end() || !IsTraining()) return;
  StepState& state = it->second;
  if (source.microbatch.value >= options_.microbatches || source.stage.value >= stages()) return;
  const Ledger::Row& row = state.ledger.row(source.microbatch);
  const auto issued = [&](std::uint64_t stage) {
    return stage >= stages() || row[stage].state != CellState::kMissing;
  };
  // Where a neighbour is missing too, its repair, or the row's deadline, mends this as well.
  if (source.stage.value > 0 && !issued(source.stage.value - 1)) return;
  const RowName name = NameOf(source.step, source.microbatch);
  if (!missing.gradient) {
    const auto resend = state.resends.extract(source);
    if (!resend) return;
    for (const Forward& frame : resend.mapped()) {
      BeginPass(PlanForwardAgain(name, row, source, frame, from, NextAttempt()), state, orders);
    }
  } else {
    const auto redirect = state.redirects.extract(source);
    if (!redirect || !issued(source.stage.value + 1)) return;
    const auto& [to, target] = redirect.mapped();
    BeginPass(PlanBackwardAgain(name, row, source, to, target, from, NextAttempt()), state, orders);
  }
}

// ---- revoke and void ----

void Coordinator::OnRevoked(const WorkerId& from, const Revoked& revoked, Timepoint now,
                            Orders& orders) {
  const TaskKey& key = revoked.key;
  const auto it = steps_.find(key.step);
  if (key.generation != generation_ || it == steps_.end() ||
      key.microbatch.value >= options_.microbatches) {
    return;
  }
  StepState& state = it->second;
  RowState& row = state.rows[key.microbatch.value];
  if (!row.revoking || row.revoking->key != key || row.revoking->worker != from) return;
  row.revoking.reset();
  row.progress = now;
  if (revoked.folded) {
    // Its report is on its way, or here already.
  } else {
    const Ledger::Cell& cell = state.ledger.cell(key.microbatch, key.stage);
    if (cell.state == CellState::kOpen && cell.attempt == key.attempt) {
      router_.Release(from);
      state.ledger.Close(key.microbatch, key.stage);
      row.avoid = from;
    }
  }
  Advance(now, orders);
}

void Coordinator::VoidWorker(const WorkerId& worker, Step step, StepState& state, Timepoint now,
                             Orders& orders) {
  const StageIndex stage = workers_.at(worker).member.stage;
  const Attempt number = NextAttempt();
  LoseCells(state, worker);
  state.voiding[worker] = {number, now + options_.patience.revoke};
  if (auto& leave = workers_.at(worker).leave) leave->parcels.erase(step);
  orders.push_back(order::Tell{
      worker, Void{options_.term, generation_, step, number, state.levels[stage.value]}});
}

void Coordinator::VoidStage(Step step, StepState& state, StageIndex stage, Timepoint now,
                            Orders& orders) {
  std::set<StageIndex> stages{stage};
  for (const ReduceGroup& group : groups_) {
    if (std::find(group.stages.begin(), group.stages.end(), stage) != group.stages.end()) {
      stages.insert(group.stages.begin(), group.stages.end());
    }
  }
  std::uint64_t level = 0;
  for (const StageIndex s : stages) level = std::max(level, state.levels[s.value] + 1);
  orders.push_back(order::Event{"ScaleLowered", "step " + std::to_string(step.value) +
                                                    " of stage " + std::to_string(stage.value) +
                                                    " begins again at level " +
                                                    std::to_string(level)});
  for (const StageIndex s : stages) {
    state.levels[s.value] = level;
    ThawStage(step, state, s, orders);
    for (const WorkerId& id : Replicas(s)) VoidWorker(id, step, state, now, orders);
  }
}

void Coordinator::OnVoided(const WorkerId& from, const Voided& voided, Timepoint now,
                           Orders& orders) {
  const auto it = steps_.find(voided.step);
  if (voided.generation != generation_ || it == steps_.end()) return;
  const auto voiding = it->second.voiding.find(from);
  if (voiding == it->second.voiding.end() || voiding->second.number != voided.number) return;
  it->second.voiding.erase(voiding);
  Advance(now, orders);
}

bool Coordinator::IsVoiding(const StepState& state, StageIndex stage) const {
  return std::any_of(state.voiding.begin(), state.voiding.end(), [&](const auto& entry) {
    const auto worker = workers_.find(entry.first);
    return worker != workers_.end() && worker->second.member.stage == stage;
  });
}

// ---- deadlines ----

Duration Coordinator::RowPatience(int tries) const {
  const Duration least =
      slowest_gap_ == 0 ? options_.patience.first_microbatch
                        : std::max(options_.patience.microbatch, FromSeconds(4 * slowest_gap_));
  return least * (1 << std::min(tries, 6));
}

void Coordinator::CheckRows(Timepoint now, Orders& orders, std::vector<Loss>& losses) {
  for (auto& [step, state] : steps_) {
    for (auto& [worker, voiding] : state.voiding) {
      if (now >= voiding.deadline)
        losses.push_back({worker, "did not answer Void", true, LossKind::kUnresponsive});
    }
    for (std::uint64_t m = 0; m < state.rows.size(); ++m) {
      RowState& row = state.rows[m];
      if (row.revoking) {
        if (now >= row.revoking->deadline) {
          losses.push_back(
              {row.revoking->worker, "did not answer Revoke", true, LossKind::kUnresponsive});
        }
        continue;
      }
      const Duration patience = RowPatience(row.tries);
      if (now - row.progress < patience / 2) continue;
      const auto stage = FindBlocker(state.ledger.row(Microbatch(m)));
      if (!stage || state.ledger.broken().contains(Microbatch(m))) continue;
      const Ledger::Cell& cell = state.ledger.cell(Microbatch(m), *stage);
      if (!std::exchange(row.charged, true)) {
        router_.Charge(cell.worker, ToSeconds(now - row.progress));
      }
      if (now - row.progress < patience) continue;
      ++row.tries;
      ++counts_.revocations;
      const TaskKey key{generation_, step, Microbatch(m), *stage, cell.attempt};
      orders.push_back(order::Event{"MicrobatchStuck",
                                    "microbatch " + std::to_string(m) + " of step " +
                                        std::to_string(step.value) + " at " + cell.worker.value});
      if (options_.rules.revoke_before_reissue) {
        row.revoking = {key, cell.worker, now + options_.patience.revoke};
        orders.push_back(order::Tell{cell.worker, Revoke{options_.term, key}});
      } else {
        row.avoid = cell.worker;
        row.progress = now;
        router_.Release(cell.worker);
        state.ledger.Close(Microbatch(m), *stage);
      }
    }
  }
  if (!evaluation_) return;
  for (auto it = evaluation_->open.begin(); it != evaluation_->open.end();) {
    const auto pass = it++;
    if (now - pass->second.since < 4 * RowPatience(0)) continue;
    ReleaseEvaluation(pass->second);
    evaluation_->missing.insert(pass->first);
    evaluation_->open.erase(pass);
  }
}

void Coordinator::CheckReduces(Timepoint now, Orders& orders, std::vector<Loss>& losses) {
  const Duration least = reduce_seconds_ == 0
                             ? options_.patience.first_reduce
                             : std::max(options_.patience.reduce, FromSeconds(4 * reduce_seconds_));
  for (auto& [step, state] : steps_) {
    for (const ReduceGroup& group : groups_) {
      GroupState& progress = state.groups[group.index];
      const Duration patience = progress.tries == 0 ? least : 2 * least;
      if (!progress.k || progress.reports.size() == progress.participants.size() ||
          now - progress.since < patience) {
        continue;
      }
      if (progress.tries++ == 0) {  // a chunk may be lost
        AskForReduce(step, state, group, now, orders);
        continue;
      }
      // Some pair cannot talk, or sums take longer than they did: the next one may.
      reduce_seconds_ = std::max(reduce_seconds_, ToSeconds(patience) / 4);
      // Without one of the silent ones the others may be able to go on. It comes back, so which one
      // it is matters little, but for what is lost with it.
      const auto loss = [&](const WorkerId& id) {
        const Worker& worker = workers_.at(id);
        if (worker.role != Role::kReady) return 0;
        return ReadyReplicas(worker.member.stage).size() > 1 ? 1 : 2;
      };
      std::vector<WorkerId> silent;
      for (const WorkerId& id : progress.participants) {
        if (progress.reports.contains(id)) continue;
        if (!silent.empty() && loss(id) > loss(silent.front())) continue;
        if (!silent.empty() && loss(id) < loss(silent.front())) silent.clear();
        silent.push_back(id);
      }
      losses.push_back({silent[static_cast<std::size_t>(progress.tries) % silent.size()],
                        "does not finish the sum of step " + std::to_string(step.value), true,
                        LossKind::kUnresponsive});
    }
  }
}

/// The version from which on the others keep their gradients for a worker that joins.
Version Coordinator::BeginOf(const Worker& worker) const {
  const auto join = joins_.find(worker.member.stage);
  if (worker.loaded || worker.InRoster()) return worker.version;
  return join == joins_.end() ? version_ : join->second.version;
}

void Coordinator::CheckMembers(Timepoint now, Orders& orders, std::vector<Loss>& losses) {
  std::vector<StageIndex> unanswered;
  for (auto& [stage, join] : joins_) {
    if (!join.welcomed && now - join.since >= options_.patience.pin) unanswered.push_back(stage);
  }
  for (const StageIndex stage : unanswered) {
    Join& join = joins_.at(stage);
    join.asked = join.donors;
    WelcomeJoiners(stage, join, now, orders);
  }
  for (const auto& [id, worker] : workers_) {
    if (worker.leave && worker.leave->IsMove()) {
      // A move that cannot be completed is given up below, without harm.
    } else if (worker.leave && worker.leave->tries() > kHandOverTries) {
      losses.push_back({id, "its sums do not arrive at their heir", true, LossKind::kUnresponsive});
    } else if (worker.leave && now >= worker.leave->deadline) {
      losses.push_back({id, "its time was over before it had handed over", true, LossKind::kLate});
    } else if (worker.role == Role::kLoading && !worker.loaded &&
               now - worker.since >= options_.patience.load) {
      losses.push_back({id, "does not load its state", true, LossKind::kLate});
    } else if ((worker.role == Role::kJoining || worker.role == Role::kCatchingUp) &&
               (now - worker.since >= options_.patience.join ||
                version_.value > BeginOf(worker).value + options_.join_lag_max)) {
      losses.push_back({id, "does not come to the end of joining", true, LossKind::kLate});
    }
  }
}

// ---- rollback ----

void Coordinator::RollBackIfStageLost(Timepoint now, Orders& orders) {
  if (!IsTraining()) return;
  std::optional<std::uint64_t> lost;
  for (std::uint64_t s = 0; s < stages() && !lost; ++s) {
    if (ReadyReplicas(StageIndex(s)).empty()) lost = s;
  }
  if (!lost) return;
  phase_ = Phase::kStageLost;
  phase_since_ = now;
  orders.push_back(order::Event{"StageLost", "stage " + std::to_string(*lost) +
                                                 " has no replica left; the job goes back to its "
                                                 "last checkpoint when it has one"});
  steps_.clear();
  router_.SetReplicas(std::vector<std::vector<WorkerId>>(stages()));  // nothing is in flight
  evaluation_.reset();
  checkpoint_.reset();
  for (auto& [id, worker] : workers_) {
    if (worker.leave && worker.leave->IsMove()) worker.leave.reset();
    const bool begun = std::exchange(worker.welcomed, false);
    if (worker.role == Role::kJoining && !begun) worker.role = Role::kWaiting;
  }
  joins_.clear();
  moves_.clear();
  BeginGenerationIfStaffed(now, orders);
}

void Coordinator::BeginGenerationIfStaffed(Timepoint now, Orders& orders) {
  if (phase_ != Phase::kStageLost) return;
  std::vector<std::vector<WorkerId>> staff(stages());
  std::vector<WorkerId> free;
  for (const auto& [id, worker] : workers_) {
    if (worker.leave) continue;
    (worker.role == Role::kWaiting ? free : staff[worker.member.stage.value]).push_back(id);
  }
  for (auto& replicas : staff) {
    if (!replicas.empty()) continue;
    auto& from =
        free.empty()
            ? *std::max_element(staff.begin(), staff.end(),
                                [](const auto& a, const auto& b) { return a.size() < b.size(); })
            : free;
    if (from.empty() || (&from != &free && from.size() < 2)) return;  // wait for a worker
    replicas.push_back(from.back());
    from.pop_back();
  }
  for (std::uint64_t s = 0; s < stages(); ++s) {
    for (const WorkerId& id : staff[s]) {
      Worker& worker = workers_.at(id);
      worker.loaded = false;
      worker.version = {};
      worker.member.stage = StageIndex(s);
      worker.assigned = true;
    }
  }
  phase_ = Phase::kRollingBack;
  phase_since_ = now;
  orders.push_back(order::BeginGeneration{generation_.Next()});
}

Orders Coordinator::OnGenerationBegun(Generation generation, Version version,
                                      const std::string& uri, Timepoint now) {
  Orders orders;
  if (phase_ != Phase::kRollingBack) return orders;
  generation_ = generation;
  version_ = version;
  begin_uri_ = uri;
  states_.clear();
  records_.clear();
  phase_ = Phase::kLoading;
  phase_since_ = now;
  std::vector<std::uint64_t> staff(stages(), 0);
  for (auto& [id, worker] : workers_) {
    if (!std::exchange(worker.assigned, false)) continue;
    ++staff[worker.member.stage.value];
    if (worker.role == Role::kWaiting) {
      orders.push_back(order::Tell{id, Welcome{.term = options_.term,
                                               .generation = generation_,
                                               .job_json = options_.job_json,
                                               .stage = worker.member.stage,
                                               .stage_count = stages(),
                                               .version = version_,
                                               .checkpoint_uri = begin_uri_,
                                               .floor = {options_.term, attempts_ + 1}}});
    } else {
      orders.push_back(order::Tell{
          id, Rollback{options_.term, generation_, worker.member.stage, version_, begin_uri_}});
    }
    worker.role = Role::kLoading;
    worker.since = now;
  }
  ++counts_.rollbacks;
  orders.push_back(order::Event{"RolledBack", "to version " + std::to_string(version_.value) +
                                                  ", as generation " +
                                                  std::to_string(generation_.value)});
  if (std::find(staff.begin(), staff.end(), 0) != staff.end()) {  // lost meanwhile
    phase_ = Phase::kStageLost;
    BeginGenerationIfStaffed(now, orders);
  }
  return orders;
}

// ---- takeover ----

void Coordinator::OnHolding(const WorkerId& from, const Holding& holding, Timepoint now,
                            Orders& orders) {
  if (phase_ != Phase::kTakingOver) {
    if (!workers_.contains(from)) {
      orders.push_back(
          order::Tell{from, Shutdown{options_.term, "the job went on without it", true}});
    }
    return;
  }
  if (holding.term != options_.term || holding.self.id != from) return;
  holdings_[from] = holding;
  AdoptIfComplete(now, orders);
}

namespace {

/// The roster that was the last to be announced, as far as is known.
const Roster* FindNewestRoster(const std::map<WorkerId, Holding>& holdings, Generation generation) {
  const Roster* newest = nullptr;
  for (const auto& [id, holding] : holdings) {
    const Roster& roster = holding.roster;
    // A generation that was begun, even if few have heard of it, ends those before it (rule 19).
    if (roster.members.empty() || roster.generation != generation) continue;
    if (newest == nullptr || newest->epoch < roster.epoch) newest = &roster;
  }
  return newest;
}

}  // namespace

/// Whether those who have not answered are given up.
bool Coordinator::IsTakeoverLate(const Roster* roster, Timepoint now) const {
  std::set<StageIndex> held;
  for (std::uint64_t s = 0; roster != nullptr && s < stages(); ++s) {
    for (const Member& member : roster->members) {
      if (holdings_.contains(member.id)) held.insert(member.stage);
    }
  }
  return now - phase_since_ >=
         (held.size() == stages() ? options_.patience.takeover : options_.patience.takeover_last);
}

/// The newest version that the roster's members hold, or know how to come to.
Version Coordinator::NewestHeld(const Roster& roster) const {
  Version newest;
  for (const Member& member : roster.members) {
    const auto holding = holdings_.find(member.id);
    if (holding == holdings_.end() || holding->second.generation != generation_) continue;
    newest = std::max(newest, holding->second.version);
    for (const CommitRecord& record : holding->second.records) {
      newest = std::max(newest, Version(record.step.value + 1));
    }
  }
  return newest;
}

void Coordinator::AdoptIfComplete(Timepoint now, Orders& orders) {
  const Roster* roster = FindNewestRoster(holdings_, generation_);
  const bool late = IsTakeoverLate(roster, now);
  const bool complete =
      roster != nullptr &&
      std::all_of(roster->members.begin(), roster->members.end(),
                  [&](const Member& member) { return holdings_.contains(member.id); });
  if (!complete && !late) return;
  if (roster == nullptr || NewestHeld(*roster) < version_) {
    // Nobody holds anything, or only what is older than the last checkpoint: begin there.
    for (const auto& [id, holding] : holdings_) {
      orders.push_back(order::Tell{id, Shutdown{options_.term, "there is nothing to go on", true}});
    }
    holdings_.clear();
    phase_ = Phase::kStageLost;
    phase_since_ = now;
    RefuseOtherClasses(orders);
    BeginGenerationIfStaffed(now, orders);
    return;
  }
  Adopt(now, orders);
}

void Coordinator::Adopt(Timepoint now, Orders& orders) {
  const Roster roster = *FindNewestRoster(holdings_, generation_);
  epoch_ = roster.epoch;
  const auto is_member = [&](const WorkerId& id) {
    return std::any_of(roster.members.begin(), roster.members.end(),
                       [&](const Member& member) { return member.id == id; });
  };
  std::map<Step, CommitRecord> records, past;
  for (auto it = holdings_.begin(); it != holdings_.end();) {
    const auto held = it++;
    const auto& [id, holding] = *held;
    const bool counts = holding.generation == generation_ &&
                        (is_member(id) || !options_.rules.takeover_keeps_roster);
    if (!counts) {
      orders.push_back(
          order::Tell{id, Shutdown{options_.term, "the job went on without it", true}});
      holdings_.erase(held);
      continue;
    }
    workers_[id] = Worker{.member = holding.self, .version = holding.version, .since = now};
    for (const CommitRecord& record : holding.past) past.try_emplace(record.step, record);
    if (options_.rules.takeover_keeps_record) {
      for (const CommitRecord& record : holding.records) records[record.step] = record;
    }
    version_ = std::max(version_, holding.version);
  }
  if (!options_.rules.takeover_keeps_record) {
    for (const auto& [id, holding] : holdings_) version_ = std::min(version_, holding.version);
  }
  for (const auto& [step, record] : past) {
    if (!records.contains(step)) orders.push_back(order::StepDone{record});
  }
  for (const auto& [step, record] : records) {
    version_ = std::max(version_, Version(step.value + 1));
    records_.push_back(record);
    last_record_ = record;
    orders.push_back(order::StepDone{record});
  }
  for (const auto& [id, holding] : holdings_) {
    workers_.at(id).role =
        holding.version.value + 1 >= version_.value ? Role::kReady : Role::kCatchingUp;
  }
  for (const Member& member : roster.members) {
    if (workers_.contains(member.id)) continue;
    ++recovering_;
    CountLoss({0, member.id, member.stage, LossKind::kSilent, "did not answer the new trainer",
               UnixTime(now)});
  }
  phase_ = Phase::kTraining;
  phase_since_ = last_commit_ = now;
  UpdateRouter();
  orders.push_back(order::Event{"TookOver", std::to_string(holdings_.size()) + " workers of " +
                                                std::to_string(roster.members.size()) +
                                                ", at version " + std::to_string(version_.value)});
  PublishRoster({}, orders);
  for (const CommitRecord& record : records_) {
    for (const auto& [id, worker] : workers_) {
      if (!worker.InRoster()) continue;
      orders.push_back(
          order::Tell{id, Commit{options_.term, record, KeepFrom(worker.member.stage)}});
    }
  }
  AdoptSteps(now, orders);
  holdings_.clear();
  RefuseOtherClasses(orders);
  RollBackIfStageLost(now, orders);
  if (!IsTraining()) return;
  if (version_.value > 0) AfterCommit(orders);
  StartJoins(now, orders);
  Advance(now, orders);
}

/// The account of the steps in progress, from the fold sets.
void Coordinator::AdoptSteps(Timepoint now, Orders& orders) {
  const std::uint64_t end = std::min(version_.value + (options_.delayed ? 2 : 1), last_step_);
  for (std::uint64_t t = version_.value; t < end; ++t) {
    StepState& state = steps_.try_emplace(Step(t), options_.microbatches, stages()).first->second;
    std::vector<std::pair<WorkerId, const HeldStep*>> parts;
    for (const auto& [id, holding] : holdings_) {
      for (const HeldStep& held : holding.steps) {
        if (held.step.value != t) continue;
        parts.emplace_back(id, &held);
        state.begun |= !held.folded.empty();
      }
    }
    for (const ReduceGroup& group : groups_) {  // groups share one level among their stages
      std::uint64_t level = 0;
      for (const auto& [id, held] : parts) {
        const StageIndex stage = workers_.at(id).member.stage;
        if (std::find(group.stages.begin(), group.stages.end(), stage) != group.stages.end()) {
          level = std::max(level, held->level);
        }
      }
      for (const StageIndex s : group.stages) {
        state.levels[s.value] = std::max(state.levels[s.value], level);
      }
    }
    for (const auto& [id, worker] : workers_) {
      if (!worker.InRoster()) continue;
      const auto part =
          std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.first == id; });
      const std::uint64_t level = part == parts.end() ? 0 : part->second->level;
      bool disjoint = level == state.levels[worker.member.stage.value];
      if (part != parts.end()) {
        if (!part->second->reduces.empty()) {
          orders.push_back(order::Tell{id, Thaw{options_.term, generation_, Step(t)}});
        }
        for (const Contribution& c : part->second->folded) {
          disjoint = disjoint && state.ledger.Adopt(worker.member.stage, id, c);
        }
      }
      if (!disjoint) VoidWorker(id, Step(t), state, now, orders);
    }
  }
}

}  // namespace swarm::protocol
