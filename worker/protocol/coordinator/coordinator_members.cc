// Coordinator: who comes, serves, joins and leaves (docs/protocol.md, rules 15 to 18).
#include <algorithm>
#include <utility>

#include "worker/protocol/coordinator/coordinator.h"
#include "worker/protocol/numeric_class.h"

namespace swarm::protocol {

void Coordinator::OnHello(const Hello& hello, Timepoint now, Orders& orders) {
  const auto refuse = [&](std::string reason, bool rejoin) {
    if (!rejoin) orders.push_back(order::Event{"WorkerRefused", hello.id.value + ": " + reason});
    orders.push_back(order::Tell{hello.id, Shutdown{options_.term, std::move(reason), rejoin}});
  };
  if (hello.term > options_.term) {
    const Orders end =
        OnSuperseded("there is a trainer of term " + std::to_string(hello.term.value));
    orders.insert(orders.end(), end.begin(), end.end());
    return;
  }
  if (hello.protocol_version != kProtocolVersion) {
    return refuse("it speaks protocol version " + std::to_string(hello.protocol_version) +
                      ", this job speaks " + std::to_string(kProtocolVersion),
                  false);
  }
  const bool taking_over = phase_ == Phase::kTakingOver;
  const std::string numeric_class = ClassInJob(hello.numeric_class, options_.probes);
  // Who serves may have said hello, and not yet what it holds.
  if (workers_.empty() && holdings_.empty() && !taking_over) numeric_class_.clear();
  // The class of an exact job is that of those who serve it, or else of the first to come.
  if (options_.exact && (taking_over ? hello.serving : numeric_class_.empty())) {
    numeric_class_ = numeric_class;
  }
  if (options_.exact && !numeric_class_.empty() && numeric_class != numeric_class_) {
    return refuse("its results would differ from those of the others: it is of numeric class " +
                      numeric_class + ", this exact job is of " + numeric_class_,
                  false);
  }
  if (const auto known = workers_.find(hello.id); known != workers_.end()) {
    if (known->second.member.incarnation == hello.incarnation) return;
    Evict({{hello.id, "it was started again", false, LossKind::kRestarted}}, now, orders);
  }
  if (hello.serving) {
    if (phase_ == Phase::kTakingOver) {
      orders.push_back(order::Tell{hello.id, Takeover{options_.term}});
    } else {
      refuse("the job went on without this worker", true);
    }
    return;
  }
  holdings_.erase(hello.id);  // of an incarnation before
  Worker& worker = workers_[hello.id];
  worker.member = {hello.id, hello.incarnation, {}, hello.cluster, hello.addresses, hello.region};
  worker.since = worker.came = now;
  worker.numeric_class = numeric_class;
  if (phase_ == Phase::kWaiting) SendState(hello.id, worker, now, orders);
  BeginGenerationIfStaffed(now, orders);
  StartJoins(now, orders);
}

std::optional<StageIndex> Coordinator::ChooseFirstStage() const {
  std::vector<std::uint64_t> there(stages(), 0);
  for (const auto& [id, worker] : workers_) {
    if (worker.role == Role::kLoading) ++there[worker.member.stage.value];
  }
  std::optional<StageIndex> best;
  std::uint64_t most = 0;
  for (std::uint64_t s = 0; s < stages(); ++s) {
    const std::uint64_t missing =
        options_.replicas[s] > there[s] ? options_.replicas[s] - there[s] : 0;
    if (missing > most) {
      most = missing;
      best = StageIndex(s);
    }
  }
  return best;
}

/// While the job waits to begin: gives the worker a stage that lacks one, with the state to load.
void Coordinator::SendState(const WorkerId& id, Worker& worker, Timepoint now, Orders& orders) {
  const auto stage = ChooseFirstStage();
  if (!stage) return;
  worker.member.stage = *stage;
  worker.role = Role::kLoading;
  worker.since = now;
  orders.push_back(
      order::Event{"WorkerJoined", id.value + " serves stage " + std::to_string(stage->value)});
  orders.push_back(order::Tell{id, Welcome{.term = options_.term,
                                           .generation = generation_,
                                           .job_json = options_.job_json,
                                           .stage = *stage,
                                           .stage_count = stages(),
                                           .version = version_,
                                           .checkpoint_uri = begin_uri_,
                                           .floor = {options_.term, attempts_ + 1}}});
}

void Coordinator::OnReady(const WorkerId& from, const Ready& ready, Timepoint now, Orders& orders) {
  Worker& worker = workers_.at(from);
  if (ready.generation != generation_ || ready.stage != worker.member.stage) return;
  worker.version = ready.version;
  worker.state = ready.state;
  if (worker.role == Role::kLoading && ready.version == version_) {
    worker.loaded = true;
    for (const auto& [other, w] : workers_) {
      if (w.loaded && w.member.stage == ready.stage && w.state != ready.state) {
        Fail("the replicas of stage " + std::to_string(ready.stage.value) +
                 " begin with different weights: " + from.value + " and " + other.value,
             FailureClass::kDiverged, orders);
        return;
      }
    }
    StartIfLoaded(now, orders);
  } else if (worker.role == Role::kJoining) {
    const auto join = joins_.find(worker.member.stage);
    if (join == joins_.end() || ready.version != join->second.version ||
        ready.state != join->second.state) {
      Evict({{from, "it has copied something else than the state of its stage", true,
              LossKind::kWrongState}},
            now, orders);
      return;
    }
    worker.loaded = true;
    worker.since = now;
    LeaveJoin(from, orders);
    CatchUp(from, worker, now, orders);
  }
}

void Coordinator::StartIfLoaded(Timepoint now, Orders& orders) {
  if (phase_ != Phase::kWaiting && phase_ != Phase::kLoading) return;
  if (phase_ == Phase::kWaiting && ChooseFirstStage()) return;
  for (const auto& [id, worker] : workers_) {
    if (worker.role == Role::kLoading && !worker.loaded) return;
  }
  for (auto& [id, worker] : workers_) {
    if (worker.role != Role::kLoading) continue;
    worker.role = Role::kReady;
    worker.loaded = false;
  }
  phase_ = Phase::kTraining;
  last_commit_ = now;
  UpdateRouter();
  PublishRoster({}, orders);
  if (stopping_) last_step_ = version_.value;
  std::uint64_t members = 0;
  for (std::uint64_t s = 0; s < stages(); ++s) members += Replicas(StageIndex(s)).size();
  orders.push_back(order::Event{
      "TrainingStarted", std::to_string(members) + " workers in " + std::to_string(stages()) +
                             " stages, from version " + std::to_string(version_.value)});
  StartJoins(now, orders);
  Advance(now, orders);
}

void Coordinator::PublishRoster(std::vector<Adoption> adoptions, Orders& orders) {
  epoch_ = epoch_.Next();
  Roster roster{options_.term, generation_, epoch_, {}, std::move(adoptions)};
  for (const auto& [id, worker] : workers_) {
    if (worker.InRoster()) roster.members.push_back(worker.member);
  }
  Broadcast(roster, orders);
}

void Coordinator::UpdateRouter() {
  std::vector<std::vector<WorkerId>> replicas(stages());
  for (std::uint64_t s = 0; s < stages(); ++s) {
    const auto ready = ReadyReplicas(StageIndex(s));
    // Who leaves gets nothing more, unless there is nobody else.
    for (const WorkerId& id : ready) {
      if (!workers_.at(id).leave) replicas[s].push_back(id);
    }
    if (replicas[s].empty()) replicas[s] = ready;
  }
  router_.SetReplicas(replicas);
}

/// Who came while nobody could say which class the job is of.
void Coordinator::RefuseOtherClasses(Orders& orders) {
  if (!options_.exact) return;
  for (auto it = workers_.begin(); it != workers_.end();) {
    const auto worker = it++;
    if (worker->second.role != Role::kWaiting) continue;
    if (numeric_class_.empty()) numeric_class_ = worker->second.numeric_class;
    if (worker->second.numeric_class == numeric_class_) continue;
    orders.push_back(order::Event{"WorkerRefused", worker->first.value +
                                                       ": its results would differ from those of "
                                                       "the others"});
    orders.push_back(
        order::Tell{worker->first, Shutdown{options_.term, "it is of another numeric class"}});
    workers_.erase(worker);
  }
}

void Coordinator::StartJoins(Timepoint now, Orders& orders) {
  if (phase_ != Phase::kTraining) return;
  for (std::uint64_t s = 0; s < stages(); ++s) {  // where donors were lost meanwhile
    const auto join = joins_.find(StageIndex(s));
    if (join != joins_.end() && !join->second.welcomed &&
        join->second.donors.size() == join->second.asked.size()) {
      WelcomeJoiners(StageIndex(s), join->second, now, orders);
    }
  }
  for (auto& [id, worker] : workers_) {
    if (worker.role != Role::kWaiting || worker.leave) continue;
    const StageIndex stage = ChooseJoinStage(id);
    const auto known = joins_.find(stage);
    // One version of a stage's state is pinned at a time; who comes soon enough shares it.
    if (known != joins_.end() &&
        version_.value > known->second.version.value + options_.join_lag_max / 4) {
      continue;
    }
    Join& join = joins_[stage];
    if (known == joins_.end()) {
      join.version = version_;
      join.since = now;
      for (const WorkerId& donor : ReadyReplicas(stage)) {
        if (join.asked.size() >= options_.donors_max) break;
        join.asked.insert(donor);
        orders.push_back(order::Tell{donor, PinState{options_.term, generation_, version_}});
      }
    }
    join.joiners.insert(id);
    worker.role = Role::kJoining;
    worker.member.stage = stage;
    worker.since = now;
    if (join.welcomed) WelcomeJoiners(stage, join, now, orders);
  }
}

void Coordinator::OnStatePinned(const WorkerId& from, const StatePinned& pinned, Timepoint now,
                                Orders& orders) {
  const StageIndex stage = workers_.at(from).member.stage;
  const auto it = joins_.find(stage);
  if (pinned.generation != generation_) return;
  if (it == joins_.end() || pinned.version != it->second.version ||
      !it->second.asked.contains(from)) {
    // Too late, or nobody joins any more.
    orders.push_back(order::Tell{from, UnpinState{options_.term, generation_, pinned.version}});
    return;
  }
  Join& join = it->second;
  const bool same = join.donors.empty() || pinned.state == join.state;
  if (pinned.error.empty() && same) {
    join.donors.insert(from);
    join.state = pinned.state;
  } else {
    join.asked.erase(from);
    orders.push_back(order::Tell{from, UnpinState{options_.term, generation_, pinned.version}});
  }
  if (!join.welcomed && join.donors.size() == join.asked.size())
    WelcomeJoiners(stage, join, now, orders);
}

void Coordinator::WelcomeJoiners(StageIndex stage, Join& join, Timepoint now, Orders& orders) {
  if (join.donors.empty()) {  // nobody holds that version: begin again, with another
    const std::set<WorkerId> joiners = std::exchange(join.joiners, {});
    joins_.erase(stage);
    for (const WorkerId& id : joiners) {
      workers_.at(id).role = Role::kWaiting;
      workers_.at(id).welcomed = false;
    }
    return;
  }
  join.welcomed = true;
  for (const WorkerId& id : join.joiners) {
    Worker& worker = workers_.at(id);
    if (std::exchange(worker.welcomed, true)) continue;
    worker.since = now;
    Welcome welcome{.term = options_.term,
                    .generation = generation_,
                    .job_json = options_.job_json,
                    .stage = stage,
                    .stage_count = stages(),
                    .version = join.version,
                    .state = join.state,
                    .floor = {options_.term, attempts_ + 1}};
    for (const WorkerId& donor : join.donors) welcome.donors.push_back(workers_.at(donor).member);
    orders.push_back(order::Event{
        "WorkerJoining", id.value + " copies stage " + std::to_string(stage.value) + " from " +
                             std::to_string(join.donors.size()) + " replicas"});
    orders.push_back(order::Tell{id, std::move(welcome)});
    for (const CommitRecord& record : records_) {
      if (record.step.value < join.version.value) continue;
      orders.push_back(
          order::Tell{id, Commit{options_.term, record, KeepFrom(worker.member.stage)}});
    }
  }
}

/// The worker needs no pinned state any more; the last one lets the donors forget it.
void Coordinator::LeaveJoin(const WorkerId& worker, Orders& orders) {
  for (auto it = joins_.begin(); it != joins_.end(); ++it) {
    Join& join = it->second;
    if (join.joiners.erase(worker) == 0) continue;
    if (!join.joiners.empty()) return;
    for (const WorkerId& donor : join.asked) {
      orders.push_back(order::Tell{donor, UnpinState{options_.term, generation_, join.version}});
    }
    joins_.erase(it);
    return;
  }
}

/// Who has nearly applied what the others have takes part in sums; who has, serves.
void Coordinator::CatchUp(const WorkerId& id, Worker& worker, Timepoint now, Orders& orders) {
  const std::uint64_t behind =
      version_.value > worker.version.value ? version_.value - worker.version.value : 0;
  if (worker.role == Role::kJoining && worker.loaded && behind <= 2) {
    worker.role = Role::kCatchingUp;
    worker.loaded = worker.welcomed = false;
    worker.since = now;
    PublishRoster({}, orders);
    for (auto& [step, state] : steps_) {
      if (state.levels[worker.member.stage.value] > 0) VoidWorker(id, step, state, now, orders);
    }
  }
  if (worker.role == Role::kCatchingUp && behind <= 1) {
    const double seconds = ToSeconds(now - worker.came);
    join_seconds_ = join_seconds_ == 0 ? seconds : 0.8 * join_seconds_ + 0.2 * seconds;
    worker.role = Role::kReady;
    worker.since = now;
    ++counts_.joins;
    CountChange(1);
    UpdateRouter();
    orders.push_back(order::Event{
        "WorkerJoined", id.value + " serves stage " + std::to_string(worker.member.stage.value)});
    Advance(now, orders);
  }
}

void Coordinator::OnLeaving(const WorkerId& from, const Leaving& leaving, Timepoint now,
                            Orders& orders) {
  Worker& worker = workers_.at(from);
  const Timepoint deadline = now + FromSeconds(leaving.seconds);
  if (worker.leave && !worker.leave->IsMove()) {
    worker.leave->deadline = std::min(worker.leave->deadline, deadline);
    return;
  }
  orders.push_back(order::Event{"WorkerLeaving",
                                from.value + " ends in " + std::to_string(leaving.seconds) + " s"});
  if (!worker.leave) worker.leave.emplace();
  worker.leave->to.reset();  // what was a move is an end now
  worker.leave->deadline = deadline;
  if (!IsTraining()) return;
  if (!worker.InRoster()) {
    orders.push_back(order::Tell{from, Shutdown{options_.term, "leaves as it was told to"}});
    Evict({{from, "leaves before it served", false, nullptr}}, now, orders);
    return;
  }
  UpdateRouter();
  Advance(now, orders);
}

void Coordinator::AdvanceLeaves(Timepoint now, Orders& orders) {
  for (auto it = workers_.begin(); it != workers_.end();) {
    const auto worker = it++;
    if (worker->second.leave && worker->second.role == Role::kReady) {
      AdvanceLeave(worker->first, worker->second, now, orders);
    }
  }
}

void Coordinator::AdvanceLeave(WorkerId id, Worker& worker, Timepoint now, Orders& orders) {
  const StageIndex stage = worker.member.stage;
  Leave& leave = *worker.leave;
  std::optional<WorkerId> heir;
  for (const WorkerId& other : ReadyReplicas(stage)) {
    if (!workers_.at(other).leave && (!heir || other < *heir)) heir = other;
  }
  if (!heir) return;  // it goes on serving until somebody else can
  if (evaluation_) {
    for (const auto& [microbatch, pass] : evaluation_->open) {
      if (pass.hops[stage.value].worker == id) return;
    }
  }
  bool held = true;
  for (auto& [step, state] : steps_) {
    if (state.ledger.HasOpen(id)) return;
    // What it has sent must be where it was sent to: frames of who has left are refused.
    for (std::uint64_t m = 0; stage.value > 0 && m < state.ledger.microbatches(); ++m) {
      const Ledger::Row& row = state.ledger.row(Microbatch(m));
      if (row[stage.value].worker == id &&
          row[stage.value - 1].state == Ledger::Cell::State::kOpen) {
        return;
      }
    }
    if (state.ledger.ClaimsOf(stage, id).microbatches.empty()) continue;
    if (IsVoiding(state, stage) || IsReducing(state, stage)) {
      return;  // its commit, or the end of the repair, comes first
    }
    Leave::Parcel& parcel = leave.parcels[step];
    const bool is_new = !workers_.contains(parcel.heir);
    if (is_new) parcel = {.heir = *heir, .asked = now};
    const bool is_late =
        !parcel.held && now - parcel.asked >= options_.patience.hand_over * (1 << parcel.tries);
    if (is_late) {  // a piece may be lost
      parcel.asked = now;
      ++parcel.tries;
    }
    if (is_new || is_late) {
      orders.push_back(order::Tell{id, HandOver{options_.term, generation_, step, parcel.heir}});
    }
    held &= parcel.held;
  }
  if (!held) return;
  std::vector<Adoption> adoptions;
  for (auto& [step, state] : steps_) {
    const auto parcel = leave.parcels.find(step);
    if (parcel == leave.parcels.end()) continue;
    adoptions.push_back({id, parcel->second.heir, step});
    state.ledger.HandOver(id, parcel->second.heir);
  }
  const std::optional<StageIndex> to = leave.to;
  if (to) {
    moves_[id] = {*to, now};
  } else {
    ++counts_.leaves;
  }
  orders.push_back(order::Event{"WorkerLeft", id.value + " has handed over what it had"});
  ForgetWorker(id, orders);
  UpdateRouter();
  PublishRoster(std::move(adoptions), orders);
  orders.push_back(
      order::Tell{id, Shutdown{options_.term, "its work is handed over", to.has_value()}});
}

void Coordinator::OnParcelHeld(const WorkerId& from, const ParcelHeld& held, Timepoint now,
                               Orders& orders) {
  const auto donor = workers_.find(held.donor);
  const auto step = steps_.find(held.step);
  if (held.generation != generation_ || donor == workers_.end() || !donor->second.leave ||
      step == steps_.end()) {
    return;
  }
  Leave& leave = *donor->second.leave;
  const auto parcel = leave.parcels.find(held.step);
  if (parcel == leave.parcels.end() || parcel->second.heir != from) return;
  ClaimSet claims{donor->second.member.stage, {}};
  for (const Contribution& c : held.contributions) claims.microbatches.push_back(c.microbatch);
  if (claims != step->second.ledger.ClaimsOf(claims.stage, held.donor)) return;
  parcel->second.held = true;
  Advance(now, orders);
}

/// A sum of the stage's tensors was asked for.
bool Coordinator::IsReducing(const StepState& state, StageIndex stage) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const ReduceGroup& group) {
    const auto known = state.groups.find(group.index);
    return std::find(group.stages.begin(), group.stages.end(), stage) != group.stages.end() &&
           known != state.groups.end() && known->second.k.has_value();
  });
}

/// A replica of the stage hands the step's sums over, or will: nobody may freeze them now.
bool Coordinator::IsHandedOver(Step step, StageIndex stage) const {
  const auto ready = ReadyReplicas(stage);
  // Where a sum of the stage is made already, its commit comes first, and with it the others.
  const bool may_ask = !IsReducing(steps_.at(step), stage);
  const bool heir = std::any_of(ready.begin(), ready.end(),
                                [&](const WorkerId& id) { return !workers_.at(id).leave; });
  return std::any_of(ready.begin(), ready.end(), [&](const WorkerId& id) {
    const auto& leave = workers_.at(id).leave;
    if (!leave) return false;
    const bool has_some = !steps_.at(step).ledger.ClaimsOf(stage, id).microbatches.empty();
    return leave->parcels.contains(step) || (heir && has_some && may_ask);
  });
}

}  // namespace swarm::protocol
