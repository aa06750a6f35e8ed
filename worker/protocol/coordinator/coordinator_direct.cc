// Coordinator: what observers are told of the job, and what an operator may tell it
// (docs/protocol.md, "Observers and the operator").
#include <algorithm>
#include <numeric>

#include "worker/protocol/coordinator/coordinator.h"

namespace swarm::protocol {
namespace {

/// Losses that observers are told of: more than are new between two looks of any of them.
constexpr std::size_t kLossesMax = 64;

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

}  // namespace

// ---- what others are told ----

double Coordinator::UnixTime(Timepoint time) const {
  return options_.unix_epoch + ToSeconds(time.time_since_epoch());
}

void Coordinator::CountLoss(const WorkerLoss& loss) {
  lost_.push_back(loss);
  lost_.back().number = ++counts_.losses;
  if (lost_.size() > kLossesMax) lost_.pop_front();
}

std::string Coordinator::WaitingFor() const {
  const auto stages_without = [&](auto lacks) {
    std::string text;
    for (std::uint64_t s = 0; s < stages(); ++s) {
      const std::uint64_t count = lacks(s);
      if (count == 0) continue;
      text += (text.empty() ? "workers: stage " : ", stage ") + std::to_string(s) + " lacks " +
              std::to_string(count);
    }
    return text;
  };
  const auto count_of = [&](std::uint64_t stage, auto counts) {
    return static_cast<std::uint64_t>(
        std::count_if(workers_.begin(), workers_.end(), [&](const auto& entry) {
          return entry.second.member.stage.value == stage && counts(entry.second);
        }));
  };
  switch (phase_) {
    case Phase::kTakingOver:
      return "the workers of the trainer before; " + std::to_string(holdings_.size()) +
             " have answered";
    case Phase::kWaiting: {
      const std::string text = stages_without([&](std::uint64_t s) {
        const std::uint64_t there =
            count_of(s, [](const Worker& w) { return w.role == Role::kLoading; });
        return options_.replicas[s] > there ? options_.replicas[s] - there : 0;
      });
      return text.empty() ? "workers that load their state" : text;
    }
    case Phase::kStageLost: {
      std::uint64_t spares = 0;
      for (const auto& [id, worker] : workers_) spares += worker.role == Role::kWaiting ? 1 : 0;
      return stages_without([&](std::uint64_t s) {
        const bool staffed =
            count_of(s, [](const Worker& w) { return w.role != Role::kWaiting && !w.leave; }) > 0;
        if (staffed) return std::uint64_t{0};
        if (spares > 0) return --spares, std::uint64_t{0};
        return std::uint64_t{1};
      });
    }
    case Phase::kRollingBack:
      return "the storage of the checkpoints";
    case Phase::kLoading:
      return "workers that load their state";
    case Phase::kTraining:
    case Phase::kFinished:
      return "";
    case Phase::kFinishing:
      return checkpoint_ || final_checkpoint_wanted_ ? "the last checkpoint" : "";
  }
  return "";
}

JobStatus Coordinator::Status() const {
  JobStatus status;
  switch (phase_) {
    case Phase::kTakingOver:
      status.state = "TakingOver";
      break;
    case Phase::kWaiting:
    case Phase::kStageLost:
      status.state = "Waiting";
      break;
    case Phase::kRollingBack:
    case Phase::kLoading:
      status.state = "Loading";
      break;
    case Phase::kTraining:
      status.state = "Training";
      break;
    case Phase::kFinishing:
      status.state = "Finishing";
      break;
    case Phase::kFinished:
      status.state = failure_.empty()                              ? "Succeeded"
                     : failure_class_ == FailureClass::kSuperseded ? "Superseded"
                                                                   : "Failed";
      break;
  }
  status.message = failure_;
  status.failure_class = failure_class_;
  status.waiting_for = WaitingFor();
  status.term = options_.term;
  status.generation = generation_;
  status.step = Step(version_.value);
  status.max_steps = options_.max_steps;
  status.loss = last_record_.loss;
  status.validation_loss = validation_loss_;
  const std::uint64_t left = last_step_ > version_.value ? last_step_ - version_.value : 0;
  status.seconds_left = seconds_per_step_ * static_cast<double>(left);
  const std::vector<double> stage_seconds = StageSeconds();
  const double all_seconds = std::accumulate(stage_seconds.begin(), stage_seconds.end(), 0.0);
  for (std::uint64_t s = 0; s < stages(); ++s) {
    const double cost = stage_seconds[s] * static_cast<double>(stages()) / all_seconds;
    status.stages.push_back({.stage = StageIndex(s), .workers = {}, .cost = cost});
  }
  for (const auto& [id, worker] : workers_) {
    if (worker.role == Role::kWaiting) {
      status.spares.push_back(id);
      continue;
    }
    StageStatus::Worker described{.id = id, .in_flight = router_.in_flight(id)};
    const double seconds = router_.EstimateSeconds(id);
    described.microbatches_per_second =
        1 / (seconds > 0 ? seconds : stage_seconds[worker.member.stage.value]);
    if (worker.leave) {
      described.state = worker.leave->IsMove() ? WorkerState::kMoving : WorkerState::kLeaving;
    } else {
      described.state = worker.role == Role::kLoading ? WorkerState::kLoading
                        : worker.role == Role::kReady ? WorkerState::kReady
                                                      : WorkerState::kJoining;
    }
    status.stages[worker.member.stage.value].workers.push_back(std::move(described));
    if (worker.leave && worker.leave->IsMove()) {
      status.balance.moving.push_back({id, *worker.leave->to});
    }
  }
  for (const auto& [id, move] : moves_) status.balance.moving.push_back({id, move.first});
  const BalanceModel model = Model();
  status.balance.state_load_seconds = model.state_load_seconds;
  status.balance.changes_per_worker_second = model.changes_per_worker_second;
  status.balance.by_operator = by_operator_;
  status.lost.assign(lost_.begin(), lost_.end());
  status.checkpoint = last_checkpoint_;
  status.counts = counts_;
  status.leader_term = leader_term_;
  return status;
}

// ---- what an operator tells ----

void Coordinator::OnObserve(const WorkerId& from, Timepoint now) {
  if (IsOperator(from)) operator_heard_ = now;
}

void Coordinator::OnDirect(const WorkerId& from, const Direct& direct, Timepoint now,
                           Orders& orders) {
  DirectReply reply{.number = direct.number};
  if (!IsOperator(from)) {
    reply.why = from.value + " is no operator of this job";
  } else if (direct.leader_term == 0 || direct.leader_term < leader_term_) {
    reply.why = "leader term " + std::to_string(direct.leader_term) +
                " is over: an operator of term " + std::to_string(leader_term_) + " was heard";
  } else {
    leader_term_ = direct.leader_term;
    operator_heard_ = now;
    reply.accepted = true;
    std::vector<std::string> refusals;
    for (const WorkerId& id : direct.drain) {
      if (std::string why = Drain(id, now, orders); !why.empty())
        refusals.push_back(std::move(why));
    }
    for (const StageMove& move : direct.moves) {
      if (std::string why = Move(move, now, orders); !why.empty()) {
        refusals.push_back(std::move(why));
      }
    }
    reply.why = Joined(refusals);
  }
  reply.leader_term = leader_term_;
  orders.push_back(order::Tell{from, std::move(reply)});
  Advance(now, orders);
}

/// Returns why not, or nothing. It ends when what it has is handed over; until its pod is deleted
/// there is no hurry.
std::string Coordinator::Drain(const WorkerId& id, Timepoint now, Orders& orders) {
  const auto it = workers_.find(id);
  if (it == workers_.end()) return id.value + " is not here";
  Worker& worker = it->second;
  if (worker.leave && !worker.leave->IsMove()) return "";
  orders.push_back(order::Event{"WorkerLeaving", id.value + " is drained by the operator"});
  if (!IsTraining() || !worker.InRoster()) {
    orders.push_back(order::Tell{id, Shutdown{options_.term, "drained by the operator"}});
    Evict({{id, "drained before it served", false, nullptr}}, now, orders);
    return "";
  }
  if (!worker.leave) worker.leave.emplace();
  worker.leave->to.reset();  // what was a move is an end now
  worker.leave->deadline = Timepoint::max();
  UpdateRouter();
  return "";
}

/// Returns why not, or nothing.
std::string Coordinator::Move(const StageMove& move, Timepoint now, Orders& orders) {
  const std::string name = move.worker.value;
  if (move.to.value >= stages()) {
    return "there is no stage " + std::to_string(move.to.value) + " for " + name;
  }
  if (const auto known = moves_.find(move.worker); known != moves_.end()) {
    known->second.first = move.to;  // it is on its way, and joins there instead
    return "";
  }
  const auto it = workers_.find(move.worker);
  if (it == workers_.end()) return name + " is not here";
  Worker& worker = it->second;
  if (worker.role == Role::kWaiting) {
    moves_[move.worker] = {move.to, now};
    return "";
  }
  if (worker.leave) {
    if (worker.leave->IsMove()) worker.leave->to = move.to;
    return worker.leave->IsMove() ? "" : name + " is leaving";
  }
  if (worker.member.stage == move.to) return "";
  if (worker.role != Role::kReady || phase_ != Phase::kTraining || stopping_) {
    return name + " cannot move now";
  }
  const auto ready = ReadyReplicas(worker.member.stage);
  const auto staying = std::count_if(ready.begin(), ready.end(),
                                     [&](const WorkerId& id) { return !workers_.at(id).leave; });
  if (staying < 2) {
    return name + " is the last that stays at stage " + std::to_string(worker.member.stage.value);
  }
  BeginMove(move.worker, move.to, "the operator says so", now, orders);
  return "";
}

}  // namespace swarm::protocol
