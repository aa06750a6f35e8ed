#include "worker/protocol/coordinator/coordinator.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

namespace swarm::protocol {

Coordinator::Coordinator(CoordinatorOptions options, Timepoint now)
    : job_(std::move(options), now),
      members_(&job_),
      reachability_(&job_, &members_),
      router_(MixName(job_.options.seed, "router"), job_.stages(), job_.options.in_flight,
              &reachability_.broken()),
      route_planning_(&job_, &members_, &reachability_.broken(), &router_),
      admission_(&job_, &members_),
      loading_(&job_, &members_),
      rollbacks_(&job_, &members_),
      validation_(&job_, &members_, &router_),
      checkpoints_(&job_, &members_),
      states_(&job_, &members_),
      steps_(&job_, &members_, &router_),
      rebalancing_(&job_, &members_, &router_),
      leaves_(&job_, &members_, &reachability_.broken(), &router_, &steps_, &validation_,
              &rebalancing_),
      audits_(&job_, &members_, &router_, &steps_),
      dispatch_(&job_, &members_, &reachability_.broken(), &router_, &steps_, &validation_,
                &audits_),
      reducing_(&job_, &members_, &reachability_.broken(), &trouble_, &steps_, &leaves_),
      joins_(&job_, &members_, &router_, &states_, &steps_, &rebalancing_),
      commits_(&job_, &members_, &trouble_, &states_, &steps_, &joins_),
      evictions_(&job_, &members_,
                 {.steps = &steps_,
                  .states = &states_,
                  .leaves = &leaves_,
                  .joins = &joins_,
                  .validation = &validation_,
                  .audits = &audits_,
                  .checkpoints = &checkpoints_,
                  .reachability = &reachability_,
                  .rebalancing = &rebalancing_}),
      taking_over_(&job_, &members_, &steps_, &commits_, &evictions_),
      directions_(&job_, &members_, &leaves_, &rebalancing_) {}

// ---- events ----

bool Coordinator::EndIfStopped(Turn& turn) {
  const Duration gap = last_event_ ? turn.now - *last_event_ : Duration();
  last_event_ = turn.now;
  if (!job_.IsTraining() || gap < job_.options.patience.stopped) return false;
  turn.Fail("this trainer was stopped for " + std::to_string(ToSeconds(gap)) +
                " s; the next one takes over",
            FailureClass::kSuperseded);
  was_stopped_ = true;
  return true;
}

Orders Coordinator::OnMessage(const WorkerId& from, const Message& message, Timepoint now) {
  if (finished()) return {};
  Turn turn{now};
  if (!EndIfStopped(turn)) Handle(from, message, turn);
  return SettleAll(std::move(turn));
}

void Coordinator::Handle(const WorkerId& from, const Message& message, Turn& turn) {
  std::visit(
      [&](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, Hello>) {
          if (m.id == from) OnHello(m, turn);
        } else if constexpr (std::is_same_v<M, Holding>) {
          if (taking_over_.OnHolding(from, m, turn)) TakeOverIfComplete(turn);
        } else if constexpr (std::is_same_v<M, Committed>) {
          OnCommitted(from, m, turn);
        } else if constexpr (std::is_same_v<M, Observe>) {
          directions_.OnObserve(from, turn.now);
        } else if constexpr (std::is_same_v<M, Direct>) {
          directions_.OnDirect(from, m, turn);
        } else if (!members_.Has(from)) {
          // It was evicted, and has not heard of it.
        } else if constexpr (std::is_same_v<M, Ready>) {
          OnReady(from, m, turn);
        } else if constexpr (std::is_same_v<M, Unheard>) {
          reachability_.OnUnheard(from, m, turn);
        } else if constexpr (std::is_same_v<M, Links>) {
          route_planning_.OnLinks(from, m);
        } else if constexpr (std::is_same_v<M, Progress>) {
          route_planning_.OnProgress(m);
          dispatch_.OnProgress(from, m, turn);
        } else if constexpr (std::is_same_v<M, Missing>) {
          dispatch_.OnMissing(from, m, turn);
        } else if constexpr (std::is_same_v<M, Revoked>) {
          dispatch_.OnRevoked(from, m, turn);
        } else if constexpr (std::is_same_v<M, Voided>) {
          steps_.OnVoided(from, m, turn);
        } else if constexpr (std::is_same_v<M, ReduceRefused>) {
          reducing_.OnRefused(from, m, turn);
        } else if constexpr (std::is_same_v<M, Reduced>) {
          reducing_.OnReduced(from, m, turn);
        } else if constexpr (std::is_same_v<M, Awaiting>) {
          reducing_.OnAwaiting(from, m, turn.now);
        } else if constexpr (std::is_same_v<M, CheckpointWritten>) {
          checkpoints_.OnWritten(from, m, turn);
        } else if constexpr (std::is_same_v<M, StatePinned>) {
          joins_.OnStatePinned(from, m, turn);
        } else if constexpr (std::is_same_v<M, Leaving>) {
          leaves_.OnLeaving(from, m, turn);
        } else if constexpr (std::is_same_v<M, ParcelHeld>) {
          leaves_.OnParcelHeld(from, m, turn);
        } else if constexpr (std::is_same_v<M, Failure>) {
          OnFailure(from, m, turn);
        }
      },
      message);
}

void Coordinator::OnHello(const Hello& hello, Turn& turn) {
  if (hello.term > job_.options.term) {
    turn.Fail("there is a trainer of term " + std::to_string(hello.term.value),
              FailureClass::kSuperseded);
    return;
  }
  const bool is_first = members_.all().empty() && taking_over_.answered() == 0;
  if (!admission_.Admit(hello, is_first, turn)) return;
  if (const Worker* known = members_.Find(hello.id)) {
    if (known->member.incarnation == hello.incarnation) return;
    turn.departures.push_back({hello.id, "it was started again", false, EvictionCause::kRestarted});
    Settle(turn);
  }
  if (hello.serving) {
    if (job_.phase == Phase::kTakingOver) {
      taking_over_.NoteArrival(hello.id, turn.now);
      turn.Tell(hello.id, Takeover{job_.options.term});
    } else {
      admission_.Refuse(hello.id, "the job went on without this worker", true, turn);
    }
    return;
  }
  taking_over_.Forget(hello.id);  // what an earlier incarnation held
  Worker& worker = members_.Add(
      {hello.id, hello.incarnation, {}, hello.cluster, hello.addresses, hello.region, hello.pod});
  worker.since = worker.came = turn.now;
  worker.held_off = job_.hold_off.Until(hello.id);
  worker.numeric_class = admission_.ClassOf(hello);
  if (hello.offers) worker.offer = hello.offer;
  joins_.OnCome(worker, turn.now);
  if (job_.phase == Phase::kWaiting) loading_.Assign(hello.id, worker, turn);
  rollbacks_.BeginIfStaffed(turn);
  joins_.Start(turn);
}

void Coordinator::OnReady(const WorkerId& from, const Ready& ready, Turn& turn) {
  Worker& worker = members_.At(from);
  if (ready.generation != job_.generation || ready.stage != worker.member.stage) return;
  members_.SetVersion(worker, ready.version);
  worker.kept_from = Step(ready.version.value);
  worker.summed_until = ready.version;
  worker.state = ready.state;
  if (worker.role() == Role::kLoading) {
    (void)states_.Add(from, ready.stage, ready.version, ready.state);  // Loading compares them
    loading_.OnReady(from, ready, turn);
    if (!turn.failure) StartTrainingIfLoaded(turn);
  } else if (worker.role() == Role::kJoining) {
    joins_.OnReady(from, ready, turn);
  }
}

void Coordinator::OnCommitted(const WorkerId& from, const Committed& committed, Turn& turn) {
  if (job_.phase == Phase::kTakingOver) taking_over_.OnCommitted(from, committed);
  if (!members_.Has(from)) return;
  // Without training, a worker may be assigned to another stage than the one whose state it
  // reports.
  if (committed.generation != job_.generation || !job_.IsTraining()) return;
  commits_.OnApplied(from, committed, turn);
  Settle(turn);
  if (!finished() && members_.Has(from)) joins_.CatchUp(from, turn);
}

/// A failure that another worker would not avoid either ends the job.
void Coordinator::OnFailure(const WorkerId& from, const Failure& failure, Turn& turn) {
  const FailureClass named = failure.failure_class;
  const bool of_the_machine =
      named == FailureClass::kDeviceMemory || named == FailureClass::kStorageUnavailable;
  const bool unnamed = named == FailureClass::kNone || named == FailureClass::kInternal ||
                       named == FailureClass::kWorkerFailed;
  // Several workers report the same of a checkpoint that is damaged: that counts once.
  const bool known = failure.generation < job_.generation || job_.phase == Phase::kStageLost ||
                     job_.phase == Phase::kRollingBack;
  if (of_the_machine || (unnamed && (known || !trouble_.Note(from, job_.version)))) {
    if (unnamed && !known) rollbacks_.Doubt(turn);
    turn.departures.push_back({from, failure.reason, false, EvictionCause::kFailed});
    return;
  }
  turn.Fail("worker " + from.value + ": " + failure.reason,
            unnamed ? FailureClass::kWorkerFailed : named);
}

Orders Coordinator::OnBeat(const WorkerId& from, const Heartbeat& beat, Timepoint now) {
  if (finished()) return {};
  Turn turn{now};
  joins_.OnBeat(from, beat, now);
  if (!EndIfStopped(turn)) dispatch_.OnBeat(from, beat, turn);
  return SettleAll(std::move(turn));
}

Orders Coordinator::OnWorkersLost(std::vector<Departure> departures, Timepoint now) {
  if (finished()) return {};
  Turn turn{now};
  if (EndIfStopped(turn)) return SettleAll(std::move(turn));
  for (const Departure& departure : departures) taking_over_.Lose(departure, turn);
  turn.departures = std::move(departures);
  return SettleAll(std::move(turn));
}

Orders Coordinator::OnCheckpointPublished(Version version, const std::string& error,
                                          Timepoint now) {
  if (finished()) return {};
  Turn turn{now};
  checkpoints_.OnPublished(version, error, turn);
  return SettleAll(std::move(turn));
}

Orders Coordinator::OnGenerationBegun(Generation generation, Version version,
                                      const std::string& uri, const Digest& manifest,
                                      Timepoint now) {
  if (job_.phase != Phase::kRollingBack) return {};
  Turn turn{now};
  commits_.Clear();
  reachability_.Clear();
  rollbacks_.OnBegun(generation, version, uri, manifest, turn);
  return SettleAll(std::move(turn));
}

Orders Coordinator::OnStopRequested(Timepoint now) {
  if (job_.stopping || finished()) return {};
  job_.stopping = true;
  if (!job_.IsTraining()) return OnStopOverdue();
  Turn turn{now};
  // Finish the steps that have begun, and begin no others.
  std::uint64_t end = job_.version.value;
  for (const auto& [step, state] : steps_.all()) {
    if (state.begun) end = std::max(end, step.value + 1);
  }
  job_.last_step = std::min(job_.last_step, end);
  std::erase_if(steps_.all(),
                [&](const auto& entry) { return entry.first.value >= job_.last_step; });
  turn.Report(EventKind::kStopping, "after step " + std::to_string(job_.last_step));
  if (job_.version.value == job_.last_step) checkpoints_.WantLast();
  turn.advance = true;
  return SettleAll(std::move(turn));
}

Orders Coordinator::OnStopOverdue() {
  if (finished()) return {};
  Turn turn{Timepoint()};
  End({.succeeded = true, .stopped_early = true},
      job_.options.keep_workers ? "" : "the job was stopped", turn);
  return std::move(turn.orders);
}

void Coordinator::OnTokensAwaited(const std::vector<TaskKey>& keys, Timepoint now) {
  for (const TaskKey& key : keys) dispatch_.OnTokensAwaited(key, now);
}

Orders Coordinator::OnTokensLost(const std::string& reason, FailureClass failure_class) {
  if (finished()) return {};
  Turn turn{Timepoint()};
  turn.Fail(reason, failure_class);
  return SettleAll(std::move(turn));
}

Orders Coordinator::OnSuperseded(const std::string& reason) {
  if (finished()) return {};
  Turn turn{Timepoint()};
  turn.Fail(reason, FailureClass::kSuperseded);
  return SettleAll(std::move(turn));
}

Orders Coordinator::OnTick(Timepoint now) {
  if (finished()) return {};
  Turn turn{now};
  if (EndIfStopped(turn)) return SettleAll(std::move(turn));
  TakeOverIfComplete(turn);
  CheckMembers(turn);
  if (job_.IsTraining()) {
    reachability_.Refresh(turn);
    reachability_.Check(turn);
    route_planning_.Refresh(turn);
    dispatch_.Check(turn);
    reducing_.Check(turn);
    checkpoints_.Check(turn);
  }
  Settle(turn);
  joins_.Start(turn);
  rebalancing_.Rebalance(turn);
  rebalancing_.TellOfRegions(turn);
  turn.advance = true;
  return SettleAll(std::move(turn));
}

JobStatus Coordinator::Status() const {
  return DescribeJob({job_, members_, reachability_, router_, loading_, taking_over_, commits_,
                      validation_, checkpoints_, rebalancing_, evictions_, directions_});
}

std::map<WorkerId, MemberDetails> Coordinator::Details() const {
  const std::map<WorkerId, double> round_trips = route_planning_.links().RoundTrips();
  std::map<WorkerId, MemberDetails> details;
  for (const auto& [id, worker] : members_.all()) {
    details[id] = {.region = worker.member.region, .version = worker.version()};
    if (const auto found = round_trips.find(id); found != round_trips.end()) {
      details[id].round_trip = found->second;
    }
  }
  return details;
}

std::vector<WorkerId> Coordinator::Members() const {
  std::vector<WorkerId> ids;
  for (const auto& [id, worker] : members_.all()) ids.push_back(id);
  return ids;
}

// ---- consequences ----

Orders Coordinator::SettleAll(Turn turn) {
  Settle(turn);
  return std::move(turn.orders);
}

void Coordinator::Settle(Turn& turn) {
  if (finished()) return;
  if (const auto failure = std::exchange(turn.failure, std::nullopt)) {
    job_.failure = failure->reason;
    job_.failure_class = failure->failure_class;
    const bool superseded = failure->failure_class == FailureClass::kSuperseded;
    End({.superseded = superseded,
         .was_stopped = was_stopped_,
         .reason = failure->reason,
         .failure_class = failure->failure_class},
        superseded ? "" : failure->reason, turn);
    return;
  }
  if (const auto version = std::exchange(turn.distrusted, std::nullopt)) {
    steps_.BeginAgain(*version, "with wrong weights of version " + std::to_string(version->value),
                      turn);
    checkpoints_.Distrust(*version, turn);
    validation_.BeginAgain();
    audits_.BeginAgain(*version);
  }
  if (std::exchange(turn.miscomputed, false)) {
    steps_.BeginAgain(Version(), "wrongly", turn);
    validation_.BeginAgain();
    audits_.BeginAgain(Version());
  }
  if (!turn.departures.empty()) Evict(turn);
  const bool progressed = std::exchange(turn.progressed, false);
  std::set<WorkerId> leavers;
  for (WorkerId& id : std::exchange(turn.rested, {})) {
    if (members_.leaving().contains(id)) leavers.insert(std::move(id));
  }
  if (std::exchange(turn.advance, false)) {
    Advance(members_.leaving(), turn);
  } else if (progressed) {
    Advance(std::move(leavers), turn);
  }
}

void Coordinator::Evict(Turn& turn) {
  const bool roster_changed = evictions_.Carry(std::exchange(turn.departures, {}), turn);
  if (job_.phase == Phase::kWaiting) loading_.AssignWaiting(turn);
  if (job_.phase == Phase::kLoading) {
    if (!loading_.IsStaffed()) job_.phase = Phase::kStageLost;
    rollbacks_.BeginIfStaffed(turn);
    StartTrainingIfLoaded(turn);
  }
  rollbacks_.BeginIfStaffed(turn);
  if (!job_.IsTraining()) return;
  router_.SetReplicas(members_.RoutableReplicas());
  if (roster_changed) members_.PublishRoster({}, turn);
  RollBackIfStageLost(turn);
  turn.advance = true;
}

void Coordinator::Advance(std::set<WorkerId> leavers, Turn& turn) {
  if (!job_.IsTraining()) return;
  AdvanceLeaves(std::move(leavers), turn);
  for (;;) {
    dispatch_.IssueAll(turn);
    reducing_.AskForComplete(turn);
    validation_.FinishIfKnown(turn);
    if (audits_.Holds(Step(job_.version.value))) break;
    if (validation_.IsOpen() || !commits_.CommitIfReduced(turn)) break;
    audits_.OnCommitted();
    leaves_.OnCommitted(Step(job_.version.value - 1));
    evictions_.OnCommitted();
    validation_.OnNewVersion();
    checkpoints_.OnNewVersion(turn);
    AdvanceLeaves(members_.leaving(), turn);
  }
  FinishIfDone(turn);
}

void Coordinator::AdvanceLeaves(std::set<WorkerId> leavers, Turn& turn) {
  for (const WorkerId& id : leavers) {
    Worker& worker = members_.At(id);
    if (worker.role() != Role::kReady) continue;
    auto adoptions = leaves_.Advance(id, turn);
    if (!adoptions) continue;
    const std::optional<StageIndex> to = worker.leave()->to;
    if (to) {
      rebalancing_.OnMovedAway(worker, turn.now);
    } else {
      ++job_.counts.leaves;
    }
    turn.Report(
        EventKind::kWorkerLeft, id.value + " has handed over what it had",
        {.worker = id, .stage = worker.stage(), .seconds = ToSeconds(turn.now - worker.came)});
    evictions_.Forget(id, turn);
    router_.SetReplicas(members_.RoutableReplicas());
    members_.PublishRoster(std::move(*adoptions), turn);
    turn.Tell(id, Shutdown{job_.options.term, "its work is handed over", to.has_value()});
  }
}

void Coordinator::CheckMembers(Turn& turn) {
  joins_.CheckPins(turn);
  joins_.CheckAway(turn.now);
  for (const auto& [id, worker] : members_.all()) {
    if (leaves_.Check(id, worker, turn)) continue;
    loading_.Check(id, worker, turn);
    joins_.Check(id, worker, turn);
  }
}

void Coordinator::StartTrainingIfLoaded(Turn& turn) {
  if (!loading_.StartTraining(turn)) return;
  commits_.OnTrainingBegun(turn.now);
  router_.SetReplicas(members_.RoutableReplicas());
  route_planning_.ShowRoster();
  joins_.Start(turn);
  turn.advance = true;
}

void Coordinator::RollBackIfStageLost(Turn& turn) {
  if (!job_.IsTraining()) return;
  const auto lost = members_.FindLostStage();
  if (!lost) return;
  rollbacks_.Stop(*lost, turn);
  steps_.Clear();
  audits_.Clear();
  router_.SetReplicas(std::vector<std::vector<WorkerId>>(job_.stages()));  // nothing is in flight
  validation_.Cancel();
  checkpoints_.Cancel();
  rebalancing_.Clear();
  joins_.Clear();
  rollbacks_.BeginIfStaffed(turn);
}

void Coordinator::TakeOverIfComplete(Turn& turn) {
  const TakingOver::Verdict verdict = taking_over_.Decide(turn);
  if (verdict == TakingOver::Verdict::kWait) return;
  if (verdict == TakingOver::Verdict::kAdopted) {
    commits_.OnTrainingBegun(turn.now);
    router_.SetReplicas(members_.RoutableReplicas());
    route_planning_.ShowRoster();
  }
  admission_.RefuseOtherClasses(turn);
  if (verdict == TakingOver::Verdict::kNothing) return rollbacks_.BeginIfStaffed(turn);
  RollBackIfStageLost(turn);
  if (!job_.IsTraining()) return;
  if (job_.version.value > 0) {
    validation_.OnNewVersion();
    checkpoints_.OnNewVersion(turn);
  }
  joins_.Start(turn);
  Advance(members_.leaving(), turn);
}

void Coordinator::FinishIfDone(Turn& turn) {
  if (job_.version.value < job_.last_step || validation_.IsOpen() || finished()) return;
  job_.phase = Phase::kFinishing;
  if (checkpoints_.IsWriting()) return;
  if (checkpoints_.IsLastGivenUp()) {
    return End({.succeeded = true, .stopped_early = true}, "", turn);
  }
  if (checkpoints_.IsLastMissing()) return checkpoints_.Request(turn);
  const bool stopped_early = job_.version.value < job_.options.max_steps;
  End({.succeeded = true, .stopped_early = stopped_early},
      stopped_early && job_.options.keep_workers ? "" : "the job is complete", turn);
}

/// `to_workers`: the reason that the workers are told; empty: they stay as they are.
void Coordinator::End(order::Finish finish, const std::string& to_workers, Turn& turn) {
  job_.phase = Phase::kFinished;
  if (!to_workers.empty()) members_.Dismiss(to_workers, turn);
  turn.orders.push_back(std::move(finish));
}

}  // namespace swarm::protocol
