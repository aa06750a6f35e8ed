#include "worker/protocol/coordinator.h"

#include <algorithm>

namespace swarm::protocol {
namespace {

constexpr int kFinalCheckpointTries = 5;

std::string ToText(Version version) { return std::to_string(version.value); }

}  // namespace

std::vector<ReduceGroup> ComputeReduceGroups(std::uint64_t stages, bool tied_head) {
  std::vector<ReduceGroup> groups;
  for (std::uint64_t s = 0; s < stages; ++s) {
    groups.push_back({GroupIndex(s), {StageIndex(s)}});
  }
  if (tied_head) {
    ReduceGroup tied{GroupIndex(stages), {StageIndex(0)}};
    if (stages > 1) tied.stages.push_back(StageIndex(stages - 1));
    groups.push_back(std::move(tied));
  }
  return groups;
}

Coordinator::Coordinator(CoordinatorOptions options)
    : options_(std::move(options)),
      groups_(ComputeReduceGroups(options_.replicas.size(), options_.tied_head)),
      router_(MixName(options_.seed, "router"), options_.replicas.size()),
      version_(options_.first_version),
      last_step_(options_.max_steps) {}

std::vector<WorkerId> Coordinator::Replicas(StageIndex stage) const {
  std::vector<WorkerId> replicas;
  for (const auto& [id, worker] : workers_) {
    if (worker.member.stage == stage) replicas.push_back(id);
  }
  return replicas;
}

std::optional<StageIndex> Coordinator::ChooseStage() const {
  std::optional<StageIndex> best;
  std::uint64_t most = 0;
  for (std::uint64_t s = 0; s < stages(); ++s) {
    const std::uint64_t there = Replicas(StageIndex(s)).size();
    const std::uint64_t missing = options_.replicas[s] > there ? options_.replicas[s] - there : 0;
    if (missing > most) {
      most = missing;
      best = StageIndex(s);
    }
  }
  return best;
}

void Coordinator::Broadcast(const Message& message, Orders& orders) const {
  for (const auto& [id, worker] : workers_) orders.push_back(order::Tell{id, message});
}

void Coordinator::Fail(std::string reason, Orders& orders) {
  if (phase_ == Phase::kFinished) return;
  failure_ = reason;
  phase_ = Phase::kFinished;
  Broadcast(Shutdown{options_.term, reason}, orders);
  orders.push_back(order::Finish{false, false, std::move(reason)});
}

Orders Coordinator::OnHello(const Hello& hello, Timepoint now) {
  Orders orders;
  const auto refuse = [&](std::string reason) {
    orders.push_back(order::Event{"WorkerRefused", hello.id.value + ": " + reason});
    orders.push_back(order::Tell{hello.id, Shutdown{options_.term, std::move(reason)}});
    return orders;
  };
  if (hello.protocol_version != kProtocolVersion) {
    return refuse("it speaks protocol version " + std::to_string(hello.protocol_version) +
                  ", this job speaks " + std::to_string(kProtocolVersion));
  }
  if (const auto known = workers_.find(hello.id); known != workers_.end()) {
    if (known->second.member.incarnation == hello.incarnation) return orders;
    return refuse("a worker of that name is in the job already");
  }
  if (phase_ != Phase::kWaiting) return refuse("the job is not waiting for workers");
  const auto stage = ChooseStage();
  if (!stage) return refuse("all stages have their replicas");
  workers_[hello.id].member =
      Member{hello.id, hello.incarnation, *stage, hello.cluster, hello.addresses};
  orders.push_back(order::Event{"WorkerJoined",
                                hello.id.value + " serves stage " + std::to_string(stage->value)});
  orders.push_back(
      order::Tell{hello.id, Welcome{options_.term, options_.generation, options_.job_json, *stage,
                                    stages(), version_, options_.resume_uri}});
  return orders;
}

Orders Coordinator::OnReady(const WorkerId& from, const Ready& ready, Timepoint now) {
  Orders orders;
  const auto it = workers_.find(from);
  if (it == workers_.end() || ready.generation != options_.generation ||
      ready.stage != it->second.member.stage || ready.version != version_) {
    return orders;
  }
  it->second.ready = true;
  it->second.ready_state = ready.state;
  for (const WorkerId& other : Replicas(ready.stage)) {
    if (workers_[other].ready && workers_[other].ready_state != ready.state) {
      Fail("the replicas of stage " + std::to_string(ready.stage.value) +
               " begin with different weights: " + from.value + " and " + other.value,
           orders);
      return orders;
    }
  }
  const bool all = !ChooseStage() && std::all_of(workers_.begin(), workers_.end(),
                                                 [](auto& w) { return w.second.ready; });
  if (phase_ == Phase::kWaiting && all) Start(now, orders);
  return orders;
}

void Coordinator::Start(Timepoint now, Orders& orders) {
  phase_ = Phase::kTraining;
  epoch_ = epoch_.Next();
  Roster roster{options_.term, options_.generation, epoch_, {}, {}};
  std::vector<std::vector<WorkerId>> replicas(stages());
  for (const auto& [id, worker] : workers_) {
    roster.members.push_back(worker.member);
    replicas[worker.member.stage.value].push_back(id);
  }
  router_.SetReplicas(replicas);
  Broadcast(roster, orders);
  last_commit_ = now;
  orders.push_back(order::Event{"TrainingStarted", std::to_string(workers_.size()) +
                                                       " workers in " + std::to_string(stages()) +
                                                       " stages, from version " +
                                                       ToText(version_)});
  Advance(now, orders);
}

void Coordinator::Advance(Timepoint now, Orders& orders) {
  if (phase_ != Phase::kTraining && phase_ != Phase::kFinishing) return;
  do {
    IssueAll(orders);
    for (auto& [step, state] : steps_) {
      // One reduce at a time keeps the memory bound: t + 1 waits for the decision about t.
      if (step.value == version_.value) ReduceWhatIsComplete(step, state, orders);
    }
  } while (CommitIfReduced(now, orders));
  FinishIfDone(orders);
}

void Coordinator::IssueAll(Orders& orders) {
  while (IssueOne(orders)) {
  }
}

bool Coordinator::IssueOne(Orders& orders) {
  Forward frame;
  frame.key.generation = options_.generation;
  StepState* step = nullptr;
  if (evaluation_ && evaluation_->issued < options_.validation_microbatches) {
    frame.kind = TaskKind::kEvaluate;
    frame.version = evaluation_->version;
    frame.key.step = Step(evaluation_->version.value);
    frame.key.microbatch = Microbatch(evaluation_->issued);
  } else {
    // Sync: step t needs Commit(t - 1). Delayed: it needs Commit(t - 2) and reads W_{t-1}.
    const std::uint64_t ahead = options_.delayed ? 2 : 1;
    std::uint64_t t = version_.value;
    for (; t < std::min(version_.value + ahead, last_step_); ++t) {
      auto [it, fresh] = steps_.try_emplace(Step(t), options_.microbatches, stages());
      if (it->second.issued < options_.microbatches) {
        step = &it->second;
        break;
      }
    }
    if (step == nullptr) return false;
    frame.key.step = Step(t);
    frame.key.microbatch = Microbatch(step->issued);
    frame.version = Version(options_.delayed && t > 0 ? t - 1 : t);
  }
  const auto route = router_.Draw();
  if (!route) return false;
  frame.end = StageIndex(stages());
  for (std::uint64_t s = 0; s < stages(); ++s) {
    const Attempt attempt = NextAttempt();
    frame.hops.push_back({(*route)[s], attempt, true});
    if (step) step->ledger.Issue(frame.key.microbatch, StageIndex(s), (*route)[s], attempt);
  }
  frame.key.attempt = frame.hops[0].attempt;
  if (step) {
    ++step->issued;
  } else {
    ++evaluation_->issued;
    TaskKey last = frame.key;
    last.stage = StageIndex(stages() - 1);
    last.attempt = frame.hops.back().attempt;
    evaluation_->routes[last] = *route;
  }
  orders.push_back(order::Issue{std::move(frame)});
  return true;
}

void Coordinator::CountBoundary(const TaskReport& report) {
  const auto it = steps_.find(report.key.step);
  if (it != steps_.end()) it->second.boundary_bytes += report.boundary_bytes;
}

Orders Coordinator::OnProgress(const WorkerId& from, const Progress& progress, Timepoint now) {
  Orders orders;
  for (const TaskReport& report : progress.reports) {
    if (report.key.generation != options_.generation) continue;
    switch (report.event) {
      case TaskReport::Event::kForwarded:
        router_.MeasureForward(from, report.seconds);
        CountBoundary(report);
        break;
      case TaskReport::Event::kFolded: {
        const auto it = steps_.find(report.key.step);
        if (it == steps_.end() ||
            !it->second.ledger.MarkFolded(report.key.microbatch, report.key.stage, from,
                                          report.key.attempt)) {
          break;
        }
        router_.MeasureBackward(from, report.seconds);
        router_.Release(from);
        CountBoundary(report);
        if (report.key.stage.value + 1 == stages()) {
          it->second.losses[report.key.microbatch.value] = report.loss;
        }
        break;
      }
      case TaskReport::Event::kEvaluated: {
        if (!evaluation_) break;
        const auto route = evaluation_->routes.find(report.key);
        if (route == evaluation_->routes.end()) break;
        for (const WorkerId& worker : route->second) router_.Release(worker);
        evaluation_->routes.erase(route);
        evaluation_->losses[report.key.microbatch] = report.loss;
        if (evaluation_->losses.size() < options_.validation_microbatches) break;
        double sum = 0;
        for (const auto& [microbatch, loss] : evaluation_->losses) sum += loss;
        validation_loss_ = sum / static_cast<double>(evaluation_->losses.size());
        orders.push_back(order::Validated{evaluation_->version, validation_loss_});
        evaluation_.reset();
        break;
      }
      case TaskReport::Event::kPropagated:
      case TaskReport::Event::kOverflow:
        break;  // of passes and accumulators that this coordinator does not order
    }
  }
  Advance(now, orders);
  return orders;
}

void Coordinator::ReduceWhatIsComplete(Step step, StepState& state, Orders& orders) {
  for (const ReduceGroup& group : groups_) {
    GroupState& progress = state.groups[group.index];
    if (progress.k) continue;
    const bool complete = std::all_of(group.stages.begin(), group.stages.end(),
                                      [&](StageIndex s) { return state.ledger.StageComplete(s); });
    if (!complete) continue;
    progress.k = NextAttempt();
    progress.reports.clear();
    progress.participants.clear();
    Reduce reduce{options_.term, options_.generation, step, group.index, *progress.k, {}};
    for (const StageIndex stage : group.stages) {
      const auto replicas = Replicas(stage);
      for (Participant& participant : state.ledger.Claims(stage, replicas)) {
        reduce.participants.push_back(std::move(participant));
      }
      progress.participants.insert(progress.participants.end(), replicas.begin(), replicas.end());
    }
    for (const WorkerId& worker : progress.participants) {
      orders.push_back(order::Tell{worker, reduce});
    }
  }
}

Orders Coordinator::OnReduceRefused(const WorkerId& from, const ReduceRefused& refused,
                                    Timepoint now) {
  Orders orders;
  const auto it = steps_.find(refused.step);
  if (refused.generation != options_.generation || it == steps_.end()) return orders;
  GroupState& group = it->second.groups[refused.group];
  if (group.k != refused.k) return orders;
  orders.push_back(order::Event{"ReduceRefused", from.value + " states another fold set for step " +
                                                     std::to_string(refused.step.value)});
  if (!it->second.ledger.Reconcile(from, refused.folded)) {
    Fail("two workers have folded the same microbatch of step " +
             std::to_string(refused.step.value) + "; one of them is " + from.value,
         orders);
    return orders;
  }
  group.k.reset();  // asked again, under a higher k, when the stage is complete
  Advance(now, orders);
  return orders;
}

Orders Coordinator::OnReduced(const WorkerId& from, const Reduced& reduced, Timepoint now) {
  Orders orders;
  const auto it = steps_.find(reduced.step);
  if (reduced.generation != options_.generation || it == steps_.end()) return orders;
  GroupState& group = it->second.groups[reduced.group];
  if (group.k != reduced.k) return orders;
  group.reports[from] = reduced;
  if (group.reports.begin()->second.digest != reduced.digest) {
    Fail("the sums of group " + std::to_string(reduced.group.value) + " in step " +
             std::to_string(reduced.step.value) + " differ between " +
             group.reports.begin()->first.value + " and " + from.value,
         orders);
    return orders;
  }
  Advance(now, orders);
  return orders;
}

bool Coordinator::CommitIfReduced(Timepoint now, Orders& orders) {
  // A validation reads the newest version: the next commit waits until it is done.
  if (evaluation_) return false;
  const auto it = steps_.find(Step(version_.value));
  if (it == steps_.end()) return false;
  StepState& state = it->second;
  CommitInputs inputs{options_.generation,
                      it->first,
                      {},
                      state.losses,
                      options_.max_grad_norm,
                      options_.learning_rate(it->first)};
  for (const ReduceGroup& group : groups_) {
    const GroupState& progress = state.groups[group.index];
    if (!progress.k || progress.reports.size() < progress.participants.size()) return false;
    const Reduced& report = progress.reports.begin()->second;
    inputs.groups.push_back({{group.index, *progress.k, report.digest}, report.norms});
  }
  const CommitRecord record = DecideCommit(inputs);
  Broadcast(Commit{options_.term, record}, orders);
  const double seconds = ToSeconds(now - last_commit_);
  seconds_per_step_ = seconds_per_step_ == 0 ? seconds : 0.9 * seconds_per_step_ + 0.1 * seconds;
  last_commit_ = now;
  last_record_ = record;
  orders.push_back(order::StepDone{record, seconds, state.boundary_bytes});
  steps_.erase(it);
  version_ = version_.Next();
  if (record.skip) {
    orders.push_back(order::Event{"StepSkipped", "the gradients of step " +
                                                     std::to_string(record.step.value) +
                                                     " are not finite; the weights stay"});
  }
  AfterCommit(orders);
  return true;
}

void Coordinator::AfterCommit(Orders& orders) {
  const auto due = [&](std::uint64_t interval) {
    return interval > 0 && (version_.value % interval == 0 || version_.value == last_step_);
  };
  if (options_.validation_microbatches > 0 && due(options_.validation_interval_steps)) {
    evaluation_.emplace();
    evaluation_->version = version_;
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

void Coordinator::RequestCheckpoint(Version version, Orders& orders) {
  checkpoint_.emplace();
  checkpoint_->version = version;
  for (std::uint64_t s = 0; s < stages(); ++s) {
    // Replicas take turns, so that no one of them pays for all.
    const auto replicas = Replicas(StageIndex(s));
    const WorkerId& writer = replicas[version.value % replicas.size()];
    orders.push_back(order::Tell{writer, WriteCheckpoint{options_.term, options_.generation,
                                                         version, options_.checkpoint_uri}});
  }
}

Orders Coordinator::OnCheckpointWritten(const WorkerId& from, const CheckpointWritten& written,
                                        Timepoint now) {
  Orders orders;
  if (!checkpoint_ || written.version != checkpoint_->version || checkpoint_->publishing ||
      written.generation != options_.generation) {
    return orders;
  }
  if (!written.error.empty()) {
    return OnCheckpointPublished(written.version, from.value + ": " + written.error, now);
  }
  checkpoint_->files[written.stage] = written.files;
  if (checkpoint_->files.size() < stages()) return orders;
  checkpoint_->publishing = true;
  std::vector<CheckpointFile> files;
  for (const auto& [stage, some] : checkpoint_->files) {
    files.insert(files.end(), some.begin(), some.end());
  }
  orders.push_back(order::PublishCheckpoint{checkpoint_->version, std::move(files)});
  return orders;
}

Orders Coordinator::OnCheckpointPublished(Version version, const std::string& error,
                                          Timepoint now) {
  Orders orders;
  if (!checkpoint_ || checkpoint_->version != version) return orders;
  checkpoint_.reset();
  const bool is_final = version.value == last_step_;
  if (error.empty()) {
    orders.push_back(order::Event{"CheckpointWritten", "version " + ToText(version)});
    if (is_final) final_checkpoint_wanted_ = false;
  } else {
    // A failed checkpoint never stops training; the next one is tried when it is due.
    orders.push_back(order::Event{"CheckpointFailed", "version " + ToText(version) + ": " + error});
    if (is_final && ++final_checkpoint_tries_ >= kFinalCheckpointTries) {
      Fail("trained to the end, but the last checkpoint could not be written: " + error, orders);
      return orders;
    }
  }
  Advance(now, orders);
  return orders;
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
  Broadcast(Shutdown{options_.term, "the job is complete"}, orders);
  orders.push_back(order::Finish{true, version_.value < options_.max_steps, {}});
}

Orders Coordinator::OnCommitted(const WorkerId& from, const Committed& committed, Timepoint now) {
  Orders orders;
  const auto it = workers_.find(from);
  if (it == workers_.end() || committed.generation != options_.generation) return orders;
  const Version version(committed.step.value + 1);
  const StageIndex stage = it->second.member.stage;
  const auto [known, first] = states_.try_emplace({version, stage}, committed.state);
  if (!first && known->second != committed.state) {
    Fail("the replicas of stage " + std::to_string(stage.value) +
             " hold different weights at version " + ToText(version) + "; one of them is " +
             from.value,
         orders);
    return orders;
  }
  while (states_.size() > 8 * stages()) states_.erase(states_.begin());
  return orders;
}

Orders Coordinator::OnFailure(const WorkerId& from, const Failure& failure) {
  Orders orders;
  Fail("worker " + from.value + ": " + failure.reason, orders);
  return orders;
}

Orders Coordinator::OnWorkerLost(const WorkerId& worker, const std::string& why) {
  Orders orders;
  if (!workers_.contains(worker) || phase_ == Phase::kFinished) return orders;
  if (phase_ == Phase::kWaiting) {
    workers_.erase(worker);
    orders.push_back(order::Event{"WorkerLost", worker.value + ": " + why});
    return orders;
  }
  Fail("worker " + worker.value + " was lost in step " + ToText(version_) + " (" + why +
           "); run again with --resume to go on from the last checkpoint",
       orders);
  return orders;
}

Orders Coordinator::OnStopRequested(Timepoint now) {
  Orders orders;
  if (stopping_ || phase_ == Phase::kFinished) return orders;
  stopping_ = true;
  if (phase_ == Phase::kWaiting) {
    phase_ = Phase::kFinished;
    Broadcast(Shutdown{options_.term, "the job was stopped"}, orders);
    orders.push_back(order::Finish{true, true, {}});
    return orders;
  }
  // Steps that have begun are finished, others are not begun.
  std::uint64_t end = version_.value;
  for (const auto& [step, state] : steps_) {
    if (state.issued > 0) end = std::max(end, step.value + 1);
  }
  last_step_ = std::min(last_step_, end);
  orders.push_back(order::Event{"Stopping", "after step " + std::to_string(last_step_)});
  if (version_.value == last_step_ && !options_.checkpoint_uri.empty()) {
    final_checkpoint_wanted_ = true;
  }
  Advance(now, orders);
  return orders;
}

JobStatus Coordinator::Status(Timepoint now) const {
  JobStatus status;
  switch (phase_) {
    case Phase::kWaiting:
      status.state = "Waiting";
      break;
    case Phase::kTraining:
      status.state = "Training";
      break;
    case Phase::kFinishing:
      status.state = "Finishing";
      break;
    case Phase::kFinished:
      status.state = failure_.empty() ? "Succeeded" : "Failed";
      break;
  }
  status.message = failure_;
  status.step = Step(version_.value);
  status.max_steps = options_.max_steps;
  status.loss = last_record_.loss;
  status.validation_loss = validation_loss_;
  const std::uint64_t left = last_step_ > version_.value ? last_step_ - version_.value : 0;
  status.seconds_left = seconds_per_step_ * static_cast<double>(left);
  for (std::uint64_t s = 0; s < stages(); ++s) {
    StageStatus stage{StageIndex(s), {}};
    for (const WorkerId& id : Replicas(StageIndex(s))) {
      const double seconds = router_.EstimateSeconds(id);
      stage.workers.push_back({.id = id,
                               .in_flight = router_.in_flight(id),
                               .microbatches_per_second = seconds > 0 ? 1 / seconds : 0});
    }
    status.stages.push_back(std::move(stage));
  }
  return status;
}

}  // namespace swarm::protocol
