#include "ctl/run/supervise.h"

#include <algorithm>

#include "base/exit.h"
#include "ctl/numbers.h"
#include "operator/plan/pods/failure_window.h"
#include "operator/plan/pods/pod_health.h"

namespace swarm::ctl {
namespace {

/// A longer time between two decisions means that this program itself was stopped or starved.
constexpr Duration kPause = std::chrono::seconds(2);

// On one machine there is no preemption. A kill came from outside and is not the program's failure.
plan::Judgement Judge(const ObservedProgram& program) {
  return plan::JudgeExit({.exit_code = program.exit_code, .signal = program.exit_signal});
}

}  // namespace

Actions Supervisor::Decide(Timepoint now, const std::vector<ObservedProgram>& observed,
                           std::optional<Timepoint> trainer_heard) {
  Actions actions;
  if (!last_decision_ || now - *last_decision_ > kPause) watching_since_ = now;
  last_decision_ = now;
  for (const ObservedProgram& worker : observed) {
    if (!actions.give_up.empty()) return actions;
    if (worker.role == WorkerRole::kTrainer) {
      if (worker.phase == Phase::kExited) {
        OnTrainerEnded(now, worker, actions);
      } else {
        OnTrainerRuns(now, trainer_heard, actions);
      }
    } else if (worker.phase == Phase::kExited && ended_.insert(worker.name).second) {
      OnWorkerEnded(now, worker, actions);
    }
  }
  while (!stopping_ && !replacements_.empty() && replacements_.front().when <= now) {
    actions.start_workers.push_back(std::move(replacements_.front().worker));
    replacements_.pop_front();
  }
  return actions;
}

void Supervisor::OnTrainerRuns(Timepoint now, std::optional<Timepoint> heard, Actions& actions) {
  if (stopping_ || trainer_killed_ || !heard) return;
  const bool answered = *heard >= trainer_began_;
  const Duration limit = answered ? limits_.trainer_silence_max : limits_.trainer_start_max;
  const Timepoint since = std::max(answered ? *heard : trainer_began_, watching_since_);
  if (now - since <= limit) return;
  trainer_killed_ = true;
  actions.kill_trainer = true;
  actions.events.push_back("the trainer has not answered for " + FormatSeconds(limit) +
                           "; killing it");
}

void Supervisor::OnTrainerEnded(Timepoint now, const ObservedProgram& trainer, Actions& actions) {
  if (trainer.exit_signal == 0 && trainer.exit_code != WorkerExit::kWasStopped) {
    actions.trainer_exit_code = trainer.exit_code;
    return;
  }
  const std::string what = "the trainer " + DescribeEnd(trainer);
  const bool killed = Judge(trainer).cause == plan::Cause::kUnknown;
  const bool too_many = plan::ChargeFailure(
      now, limits_.window, killed ? limits_.kills_max : limits_.trainer_failures_max,
      killed ? &trainer_kills_ : &trainer_failures_);
  if (stopping_ || too_many) {
    actions.give_up = what;
    return;
  }
  trainer_began_ = now;
  trainer_killed_ = false;
  actions.restart_trainer = true;
  actions.events.push_back(what + "; starting it again");
}

void Supervisor::OnWorkerEnded(Timepoint now, const ObservedProgram& worker, Actions& actions) {
  const plan::Judgement end = Judge(worker);
  if (stopping_ || end.health == plan::Health::kDone) return;
  ++departures_;
  const bool killed = end.cause == plan::Cause::kUnknown;
  std::vector<Timepoint>& ends = killed ? kills_ : failures_;
  const bool too_many = plan::ChargeFailure(
      now, limits_.window, killed ? limits_.kills_max : limits_.failures_max, &ends);
  const std::string what = worker.name + " " + DescribeEnd(worker);
  if (end.fatal) {
    actions.give_up = what + "; a replacement would fail in the same way";
    actions.give_up_because_of = worker.name;
    return;
  }
  if (too_many) {
    actions.give_up = what + ", the last of " + std::to_string(ends.size()) + " lost in " +
                      FormatSeconds(limits_.window);
    actions.give_up_because_of = worker.name;
    return;
  }
  if (!limits_.restart) {
    actions.events.push_back(what + "; it is not replaced");
    return;
  }
  replacements_.push_back({now + limits_.restart_delay, NextWorker()});
  const bool later = limits_.restart_delay > Duration::zero();
  actions.events.push_back(what + "; starting " + replacements_.back().worker +
                           (later ? " in " + FormatSeconds(limits_.restart_delay) : ""));
}

}  // namespace swarm::ctl
