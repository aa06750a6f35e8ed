#include "ctl/supervise.h"

#include <csignal>
#include <cstring>

#include "ctl/exit_codes.h"

namespace swarm::ctl {

std::string DescribeEnd(const ObservedWorker& worker) {
  if (worker.exit_signal == 0) return "ended with exit code " + std::to_string(worker.exit_code);
  return "was ended by signal " + std::to_string(worker.exit_signal) + " (" +
         ::strsignal(worker.exit_signal) + ")";
}

Actions Supervisor::Decide(Timepoint now, const std::vector<ObservedWorker>& observed) {
  Actions actions;
  for (const ObservedWorker& worker : observed) {
    if (!actions.give_up.empty()) break;
    if (worker.phase != Phase::kExited) continue;
    if (worker.role == Role::kTrainer) {
      OnTrainerEnded(worker, actions);
    } else if (ended_.insert(worker.name).second) {
      OnWorkerEnded(now, worker, actions);
    }
  }
  return actions;
}

void Supervisor::OnTrainerEnded(const ObservedWorker& trainer, Actions& actions) {
  if (trainer.exit_signal == 0) {
    actions.trainer_exit_code = trainer.exit_code;
    return;
  }
  const std::string what = "the trainer " + DescribeEnd(trainer);
  if (stopping_ || trainer_restarts_ >= limits_.trainer_restarts_max) {
    actions.give_up = what;
    return;
  }
  ++trainer_restarts_;
  actions.restart_trainer = true;
  actions.events.push_back(what + "; starting it again");
}

void Supervisor::OnWorkerEnded(Timepoint now, const ObservedWorker& worker, Actions& actions) {
  if (stopping_ || worker.succeeded()) return;
  ++losses_;
  const bool killed = worker.exit_signal == SIGKILL || worker.exit_signal == SIGTERM;
  std::deque<Timepoint>& recent = killed ? kills_ : failures_;
  recent.push_back(now);
  while (now - recent.front() > limits_.window) recent.pop_front();
  const std::string what = worker.name + " " + DescribeEnd(worker);
  if (worker.exit_signal == 0 && worker.exit_code == static_cast<int>(ExitCode::kBadUsage)) {
    actions.give_up = what + "; another would do no better";
    actions.give_up_because_of = worker.name;
    return;
  }
  if (recent.size() > (killed ? limits_.kills_max : limits_.failures_max)) {
    actions.give_up = what + ", the last of " + std::to_string(recent.size()) + " lost in " +
                      std::to_string(static_cast<long>(ToSeconds(limits_.window))) + " s";
    actions.give_up_because_of = worker.name;
    return;
  }
  actions.start_workers.push_back(WorkerName(next_ordinal_++));
  actions.events.push_back(what + "; starting " + actions.start_workers.back());
}

}  // namespace swarm::ctl
