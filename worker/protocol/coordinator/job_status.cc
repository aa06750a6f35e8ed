#include "worker/protocol/coordinator/job_status.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace swarm::protocol {
namespace {

/// "workers: stage 0 lacks 2, stage 3 lacks 1"; empty if no stage lacks any.
std::string DescribeLacks(const std::vector<std::uint64_t>& lacks) {
  std::string text;
  for (std::size_t s = 0; s < lacks.size(); ++s) {
    if (lacks[s] == 0) continue;
    text += (text.empty() ? "workers: stage " : ", stage ") + std::to_string(s) + " lacks " +
            std::to_string(lacks[s]);
  }
  return text;
}

std::vector<std::uint64_t> LacksToBegin(const JobParts& parts) {
  std::vector<std::uint64_t> lacks;
  for (std::uint64_t s = 0; s < parts.job.stages(); ++s) {
    lacks.push_back(parts.loading.Lacks(StageIndex(s)));
  }
  return lacks;
}

/// One for each stage without a worker, less the spare workers.
std::vector<std::uint64_t> LacksToGoOn(const JobParts& parts) {
  std::vector<std::uint64_t> lacks(parts.job.stages(), 1);
  std::uint64_t spares = 0;
  for (const auto& [id, worker] : parts.members.all()) {
    if (worker.role() == Role::kWaiting) {
      ++spares;
    } else if (!worker.leave()) {
      lacks[worker.member.stage.value] = 0;
    }
  }
  for (std::uint64_t& lack : lacks) {
    if (lack == 1 && spares > 0) lack = 0, --spares;
  }
  return lacks;
}

WorkerState StateOf(const Worker& worker) {
  if (worker.leave())
    return worker.leave()->IsMove() ? WorkerState::kMoving : WorkerState::kLeaving;
  if (worker.role() == Role::kLoading) return WorkerState::kLoading;
  return worker.role() == Role::kReady ? WorkerState::kReady : WorkerState::kJoining;
}

void DescribeWorkers(const JobParts& parts, JobStatus* status) {
  const std::vector<double> seconds = parts.rebalancing.StageSeconds();
  const double all_seconds = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  for (std::uint64_t s = 0; s < parts.job.stages(); ++s) {
    const double cost = seconds[s] * static_cast<double>(parts.job.stages()) / all_seconds;
    status->stages.push_back({.stage = StageIndex(s), .workers = {}, .cost = cost});
  }
  for (const auto& [id, worker] : parts.members.all()) {
    if (worker.role() == Role::kWaiting) {
      status->spares.push_back(id);
      continue;
    }
    const std::uint64_t stage = worker.member.stage.value;
    const double own = parts.router.ServiceSeconds(id);
    StageStatus::Worker described{.id = id, .in_flight = parts.router.in_flight(id)};
    described.microbatches_per_second = 1 / (own > 0 ? own : seconds[stage]);
    described.state = StateOf(worker);
    described.region = worker.member.region;
    status->stages[stage].workers.push_back(std::move(described));
  }
}

}  // namespace

JobState StateOf(const Job& job) {
  switch (job.phase) {
    case Phase::kTakingOver:
      return JobState::kTakingOver;
    case Phase::kWaiting:
    case Phase::kStageLost:
      return JobState::kWaiting;
    case Phase::kRollingBack:
    case Phase::kLoading:
      return JobState::kLoading;
    case Phase::kTraining:
      return JobState::kTraining;
    case Phase::kFinishing:
      return JobState::kFinishing;
    case Phase::kFinished:
      break;
  }
  if (job.failure.empty()) return JobState::kSucceeded;
  return job.failure_class == FailureClass::kSuperseded ? JobState::kSuperseded : JobState::kFailed;
}

std::string DescribeWait(const JobParts& parts) {
  switch (parts.job.phase) {
    case Phase::kTakingOver:
      return "the workers of the trainer before; " + std::to_string(parts.taking_over.answered()) +
             " have answered";
    case Phase::kWaiting: {
      const std::string text = DescribeLacks(LacksToBegin(parts));
      return text.empty() ? "workers that load their state" : text;
    }
    case Phase::kStageLost:
      return DescribeLacks(LacksToGoOn(parts));
    case Phase::kRollingBack:
      return "the storage of the checkpoints";
    case Phase::kLoading:
      return "workers that load their state";
    case Phase::kFinishing:
      return parts.checkpoints.IsWriting() || parts.checkpoints.IsLastMissing()
                 ? "the last checkpoint"
                 : "";
    case Phase::kTraining:
      return parts.reachability.DescribeWait();
    case Phase::kFinished:
      break;
  }
  return "";
}

JobStatus DescribeJob(const JobParts& parts) {
  const Job& job = parts.job;
  JobStatus status;
  status.state = StateOf(job);
  status.message = job.failure;
  status.failure_class = job.failure_class;
  status.waiting_for = DescribeWait(parts);
  status.term = job.options.term;
  status.generation = job.generation;
  status.step = Step(job.version.value);
  status.max_steps = job.options.max_steps;
  status.loss = parts.commits.last_record().loss;
  status.validation_loss = parts.validation.loss();
  const std::uint64_t left = job.last_step - std::min(job.last_step, job.version.value);
  status.seconds_left = parts.commits.seconds_per_step() * static_cast<double>(left);
  DescribeWorkers(parts, &status);
  status.balance = parts.rebalancing.Status();
  status.evicted.assign(parts.evictions.last().begin(), parts.evictions.last().end());
  status.checkpoint = parts.checkpoints.status();
  status.counts = job.counts;
  status.leader_term = parts.directions.leader_term();
  status.retired = job.retired.count();
  return status;
}

}  // namespace swarm::protocol
