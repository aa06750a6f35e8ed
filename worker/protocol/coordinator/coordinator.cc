#include "worker/protocol/coordinator/coordinator.h"

#include <algorithm>

namespace swarm::protocol {

std::vector<ReduceGroup> ComputeReduceGroups(std::uint64_t stages, bool tied_head,
                                             bool shared_basis) {
  std::vector<ReduceGroup> groups;
  for (std::uint64_t s = 0; s < stages; ++s) {
    groups.push_back({GroupIndex(s), {StageIndex(s)}});
  }
  if (tied_head) {
    ReduceGroup tied{GroupIndex(stages), {StageIndex(0)}};
    if (stages > 1) tied.stages.push_back(StageIndex(stages - 1));
    groups.push_back(std::move(tied));
  }
  if (shared_basis) {
    ReduceGroup shared{GroupIndex(groups.size()), {}};
    for (std::uint64_t s = 0; s < stages; ++s) shared.stages.push_back(StageIndex(s));
    groups.push_back(std::move(shared));
  }
  return groups;
}

Coordinator::Coordinator(CoordinatorOptions options, Timepoint now)
    : options_(std::move(options)),
      groups_(
          ComputeReduceGroups(options_.replicas.size(), options_.tied_head, options_.shared_basis)),
      generation_(options_.generation),
      router_(MixName(options_.seed, "router"), options_.replicas.size(), options_.in_flight_max),
      phase_(options_.take_over ? Phase::kTakingOver : Phase::kWaiting),
      phase_since_(now),
      version_(options_.first_version),
      begin_uri_(options_.resume_uri),
      last_step_(options_.max_steps) {
  if (!begin_uri_.empty()) last_checkpoint_.version = version_;
}

Orders Coordinator::OnMessage(const WorkerId& from, const Message& message, Timepoint now) {
  Orders orders;
  if (phase_ == Phase::kFinished) return orders;
  std::visit(
      [&](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<M, Hello>) {
          if (m.id == from) OnHello(m, now, orders);
        } else if constexpr (std::is_same_v<M, Holding>) {
          OnHolding(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, Observe>) {
          OnObserve(from, now);
        } else if constexpr (std::is_same_v<M, Direct>) {
          OnDirect(from, m, now, orders);
        } else if (!workers_.contains(from)) {
          // Evicted, and does not know it yet.
        } else if constexpr (std::is_same_v<M, Ready>) {
          OnReady(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, Progress>) {
          OnProgress(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, Missing>) {
          OnMissing(from, m, orders);
        } else if constexpr (std::is_same_v<M, Revoked>) {
          OnRevoked(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, Voided>) {
          OnVoided(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, ReduceRefused>) {
          OnReduceRefused(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, Reduced>) {
          OnReduced(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, Committed>) {
          OnCommitted(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, CheckpointWritten>) {
          OnCheckpointWritten(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, StatePinned>) {
          OnStatePinned(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, Leaving>) {
          OnLeaving(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, ParcelHeld>) {
          OnParcelHeld(from, m, now, orders);
        } else if constexpr (std::is_same_v<M, Failure>) {
          OnFailed(from, m, now, orders);
        }
      },
      message);
  return orders;
}

Orders Coordinator::OnTick(Timepoint now) {
  Orders orders;
  std::vector<Loss> losses;
  if (phase_ == Phase::kFinished) return orders;
  if (phase_ == Phase::kTakingOver) AdoptIfComplete(now, orders);
  CheckMembers(now, orders, losses);
  if (IsTraining()) {
    CheckRows(now, orders, losses);
    CheckReduces(now, orders, losses);
  }
  if (!losses.empty()) Evict(losses, now, orders);
  StartJoins(now, orders);
  Rebalance(now, orders);
  Advance(now, orders);
  return orders;
}

Orders Coordinator::OnFailure(const std::string& reason, const std::string& failure_class) {
  Orders orders;
  Fail(reason, failure_class, orders);
  return orders;
}

Orders Coordinator::OnSuperseded(const std::string& reason) {
  if (phase_ == Phase::kFinished) return {};
  phase_ = Phase::kFinished;
  failure_ = reason;
  failure_class_ = FailureClass::kSuperseded;
  return {order::Finish{
      .superseded = true, .reason = failure_, .failure_class = FailureClass::kSuperseded}};
}

std::vector<WorkerId> Coordinator::Replicas(StageIndex stage) const {
  std::vector<WorkerId> replicas;
  for (const auto& [id, worker] : workers_) {
    if (worker.InRoster() && worker.member.stage == stage) replicas.push_back(id);
  }
  return replicas;
}

std::vector<WorkerId> Coordinator::ReadyReplicas(StageIndex stage) const {
  std::vector<WorkerId> replicas;
  for (const auto& [id, worker] : workers_) {
    if (worker.role == Role::kReady && worker.member.stage == stage) replicas.push_back(id);
  }
  return replicas;
}

std::vector<WorkerId> Coordinator::Members() const {
  std::vector<WorkerId> members;
  for (const auto& [id, worker] : workers_) members.push_back(id);
  return members;
}

Version Coordinator::VersionFor(Step step) const {
  return Version(options_.delayed && step.value > 0 ? step.value - 1 : step.value);
}

RowName Coordinator::NameOf(Step step, Microbatch microbatch) const {
  return {options_.term, generation_, step, microbatch, VersionFor(step)};
}

void Coordinator::Broadcast(const Message& message, Orders& orders) const {
  for (const auto& [id, worker] : workers_) {
    if (worker.InRoster()) orders.push_back(order::Tell{id, message});
  }
}

void Coordinator::Fail(std::string reason, std::string failure_class, Orders& orders) {
  if (phase_ == Phase::kFinished) return;
  failure_ = reason;
  failure_class_ = failure_class;
  phase_ = Phase::kFinished;
  Dismiss(reason, orders);
  orders.push_back(order::Finish{.reason = std::move(reason), .failure_class = failure_class_});
}

/// All workers are to leave.
void Coordinator::Dismiss(const std::string& why, Orders& orders) {
  for (const auto& [id, worker] : workers_) {
    orders.push_back(order::Tell{id, Shutdown{options_.term, why}});
  }
}

void Coordinator::OnFailed(const WorkerId& from, const Failure& failure, Timepoint now,
                           Orders& orders) {
  const bool its_own = failure.failure_class == FailureClass::kDeviceMemory ||
                       failure.failure_class == FailureClass::kStorageUnavailable;
  if (its_own) return Evict({{from, failure.reason, false, LossKind::kFailed}}, now, orders);
  const bool named =
      !failure.failure_class.empty() && failure.failure_class != FailureClass::kInternal;
  Fail("worker " + from.value + ": " + failure.reason,
       named ? failure.failure_class : FailureClass::kWorkerFailed, orders);
}

void Coordinator::Advance(Timepoint now, Orders& orders) {
  if (!IsTraining()) return;
  AdvanceLeaves(now, orders);
  do {
    IssueAll(now, orders);
    // One reduce at a time keeps the memory bound: t + 1 waits for the decision about t.
    const auto step = steps_.find(Step(version_.value));
    if (step != steps_.end()) ReduceWhatIsComplete(step->first, step->second, now, orders);
  } while (CommitIfReduced(now, orders));
  FinishIfDone(orders);
}

void Coordinator::IssueAll(Timepoint now, Orders& orders) {
  // Sync: step t needs Commit(t - 1). Delayed: it needs Commit(t - 2) and reads W_{t-1}.
  const std::uint64_t end = std::min(version_.value + (options_.delayed ? 2 : 1), last_step_);
  for (std::uint64_t t = version_.value; t < end; ++t) {
    steps_.try_emplace(Step(t), options_.microbatches, stages());
  }
  bool room = true;
  for (auto& [step, state] : steps_) {
    // A copy: what is issued is not broken any more.
    for (const Microbatch m : std::set<Microbatch>(state.ledger.broken())) {
      room &= IssueRow(step, state, m, now, orders);
    }
  }
  if (!room) return;  // fresh microbatches must not take the room that repairs wait for
  while (IssueEvaluation(now, orders)) {
  }
  if (evaluation_ && !evaluation_->missing.empty()) return;
  for (auto& [step, state] : steps_) {
    while (!state.ledger.fresh().empty()) {
      if (!IssueRow(step, state, *state.ledger.fresh().begin(), now, orders)) return;
    }
  }
}

bool Coordinator::IssueRow(Step step, StepState& state, Microbatch microbatch, Timepoint now,
                           Orders& orders) {
  RowState& info = state.rows[microbatch.value];
  const auto runs = FindMissingRuns(state.ledger.row(microbatch));
  const bool fresh = runs.front() == StageRun{0, stages()};
  if (info.revoking) return true;  // its answer may open another cell
  std::vector<WorkerId> owners;    // of all runs, one after the other
  bool room = true;
  for (const StageRun& run : runs) {
    for (std::uint64_t s = run.begin; s < run.end; ++s) room &= !IsVoiding(state, StageIndex(s));
    const auto route = room ? router_.Draw(run.begin, run.end, !fresh, info.avoid) : std::nullopt;
    room = route.has_value();
    if (!room) break;
    owners.insert(owners.end(), route->begin(), route->end());
  }
  if (!room) {
    for (const WorkerId& owner : owners) router_.Release(owner);
    return false;
  }
  auto owner = owners.begin();
  for (const StageRun& run : runs) {
    for (std::uint64_t s = run.begin; s < run.end; ++s) {
      state.ledger.Issue(microbatch, StageIndex(s), *owner++, NextAttempt());
    }
  }
  for (const StageRun& run : runs) {
    BeginPass(PlanPass(NameOf(step, microbatch), state.ledger.row(microbatch), run), state, orders);
  }
  state.begun = true;
  info.progress = now;
  info.drawn = fresh ? now : Timepoint();
  info.charged = false;
  info.avoid = {};
  return true;
}

void Coordinator::BeginPass(PassOrders pass, StepState& state, Orders& orders) {
  if (pass.holder) {
    state.resends[pass.resend.source].push_back(pass.frame);
    orders.push_back(order::Tell{*pass.holder, std::move(pass.resend)});
  } else {
    orders.push_back(order::Issue{std::move(pass.frame)});
  }
  if (pass.returner) {
    state.redirects[pass.redirect.source] = {pass.redirect.to, pass.redirect.target};
    orders.push_back(order::Tell{*pass.returner, std::move(pass.redirect)});
  }
}

bool Coordinator::IssueEvaluation(Timepoint now, Orders& orders) {
  if (!evaluation_ || evaluation_->missing.empty()) return false;
  const auto route = router_.Draw();
  if (!route) return false;
  const Microbatch microbatch = *evaluation_->missing.begin();
  evaluation_->missing.erase(microbatch);
  Forward frame;
  frame.kind = TaskKind::kEvaluate;
  frame.version = evaluation_->version;
  frame.end = StageIndex(stages());
  for (const WorkerId& worker : *route) frame.hops.push_back({worker, NextAttempt(), false});
  frame.key = {generation_, Step(evaluation_->version.value), microbatch, StageIndex(0),
               frame.hops[0].attempt};
  evaluation_->open[microbatch] = {frame.hops, now};
  orders.push_back(order::Issue{std::move(frame)});
  return true;
}

void Coordinator::Touch(StepState& state, Microbatch microbatch, Timepoint now) {
  if (microbatch.value >= state.rows.size()) return;
  RowState& row = state.rows[microbatch.value];
  if (row.progress == Timepoint()) return;  // issued by the trainer before
  slowest_gap_ = std::max(ToSeconds(now - row.progress), 0.995 * slowest_gap_);
  row.progress = now;
  row.charged = false;
}

void Coordinator::MeasureStay(const WorkerId& worker, const StepState& state, Microbatch microbatch,
                              Timepoint now) {
  const Timepoint drawn = state.rows.at(microbatch.value).drawn;
  if (drawn != Timepoint()) router_.MeasureStay(worker, ToSeconds(now - drawn));
}

void Coordinator::CountBoundary(const TaskReport& report) {
  const auto it = steps_.find(report.key.step);
  if (it != steps_.end()) it->second.boundary_bytes += report.boundary_bytes;
}

void Coordinator::OnProgress(const WorkerId& from, const Progress& progress, Timepoint now,
                             Orders& orders) {
  using Event = TaskReport::Event;
  for (const TaskReport& report : progress.reports) {
    const TaskKey& key = report.key;
    if (key.generation != generation_ || !IsTraining()) continue;
    if (report.event == Event::kEvaluated) {
      OnEvaluated(from, report, orders);
      continue;
    }
    if (report.event == Event::kForwarded) router_.MeasureForward(from, report.seconds);
    slowest_work_ = std::max(report.seconds, 0.995 * slowest_work_);
    CountBoundary(report);
    const auto it = steps_.find(key.step);
    if (it == steps_.end()) continue;
    StepState& state = it->second;
    switch (report.event) {
      case Event::kForwarded:
        if (state.ledger.MarkForwarded(key, from)) Touch(state, key.microbatch, now);
        break;
      case Event::kFolded:
        if (!state.ledger.MarkFolded(key, from, report.loss)) break;
        Touch(state, key.microbatch, now);
        router_.MeasureBackward(from, report.seconds);
        MeasureStay(from, state, key.microbatch, now);
        router_.Release(from);
        break;
      case Event::kPropagated:
        Touch(state, key.microbatch, now);
        break;
      case Event::kOverflow:
        // One that knows of a void already is of an attempt that the ledger does not know any more.
        if (state.ledger.MarkForwarded(key, from))
          VoidStage(key.step, state, key.stage, now, orders);
        break;
      case Event::kEvaluated:
        break;
    }
  }
  Advance(now, orders);
}

void Coordinator::ReleaseEvaluation(const Evaluation::Pass& pass) {
  for (const Hop& hop : pass.hops) router_.Release(hop.worker);
}

void Coordinator::OnEvaluated(const WorkerId& from, const TaskReport& report, Orders& orders) {
  if (!evaluation_) return;
  const auto pass = evaluation_->open.find(report.key.microbatch);
  if (pass == evaluation_->open.end() || pass->second.hops.back().worker != from ||
      pass->second.hops.back().attempt != report.key.attempt) {
    return;
  }
  ReleaseEvaluation(pass->second);
  evaluation_->open.erase(pass);
  evaluation_->losses[report.key.microbatch] = report.loss;
  if (evaluation_->losses.size() < options_.validation_microbatches) return;
  double sum = 0;
  for (const auto& [microbatch, loss] : evaluation_->losses) sum += loss;
  validation_loss_ = sum / static_cast<double>(evaluation_->losses.size());
  orders.push_back(order::Validated{evaluation_->version, validation_loss_});
  evaluation_.reset();
}

Orders Coordinator::OnStopRequested(Timepoint now) {
  Orders orders;
  if (stopping_ || phase_ == Phase::kFinished) return orders;
  stopping_ = true;
  if (!IsTraining()) return OnStopOverdue();
  // Steps that have begun are finished, others are not begun.
  std::uint64_t end = version_.value;
  for (const auto& [step, state] : steps_) {
    if (state.begun) end = std::max(end, step.value + 1);
  }
  last_step_ = std::min(last_step_, end);
  std::erase_if(steps_, [&](const auto& entry) { return entry.first.value >= last_step_; });
  orders.push_back(order::Event{"Stopping", "after step " + std::to_string(last_step_)});
  if (version_.value == last_step_ && !options_.checkpoint_uri.empty()) {
    final_checkpoint_wanted_ = true;
  }
  Advance(now, orders);
  return orders;
}

Orders Coordinator::OnStopOverdue() {
  Orders orders;
  if (phase_ == Phase::kFinished) return orders;
  phase_ = Phase::kFinished;
  if (!options_.keep_workers) Dismiss("the job was stopped", orders);
  orders.push_back(order::Finish{.succeeded = true, .stopped_early = true});
  return orders;
}

}  // namespace swarm::protocol
