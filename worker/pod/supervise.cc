#include "worker/pod/supervise.h"

#include <algorithm>
#include <csignal>

#include "base/exit.h"

namespace swarm::pod {
namespace {

/// Whether a new process on the same device may fare better.
bool MayPass(const ObservedProgram& end) {
  if (end.exit_signal != 0) return end.exit_signal != SIGTERM;
  return end.exit_code == WorkerExit::kFailed || end.exit_code == WorkerExit::kOutOfMemory ||
         end.exit_code == WorkerExit::kStorageUnavailable;
}

}  // namespace

std::string Supervisor::OnEnded(std::size_t index, const ObservedProgram& end, Timepoint now) {
  Worker& worker = workers_.at(index);
  worker.runs = false;
  told_to_end_ |= end.succeeded();
  last_code_ = end.exit_signal != 0 ? 128 + end.exit_signal : end.exit_code;
  if (leaving_ || !MayPass(end)) return "it is not started again";
  std::erase_if(worker.failures,
                [&](Timepoint failure) { return now - failure >= limits_.window; });
  worker.failures.push_back(now);
  if (worker.failures.size() > limits_.failures_max) {
    return "it has failed " + std::to_string(worker.failures.size()) +
           " times in an hour, and its device counts as lost";
  }
  Duration delay = limits_.first_delay;
  for (std::size_t i = 1; i < worker.failures.size() && delay < limits_.delay_max; ++i) delay *= 2;
  delay = std::min(delay, limits_.delay_max);
  worker.due = now + delay;
  return "starting it again in " + std::to_string(static_cast<int>(ToSeconds(delay))) + " s";
}

std::vector<std::size_t> Supervisor::TakeDue(Timepoint now) {
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (!worker.due || *worker.due > now) continue;
    worker.due.reset();
    worker.runs = true;
    due.push_back(i);
  }
  return due;
}

std::optional<Timepoint> Supervisor::NextDue() const {
  std::optional<Timepoint> next;
  for (const Worker& worker : workers_) {
    if (worker.due && (!next || *worker.due < *next)) next = worker.due;
  }
  return next;
}

void Supervisor::BeginLeaving() {
  for (Worker& worker : workers_) worker.due.reset();
  leaving_ = true;
}

bool Supervisor::HasEnded() const {
  return std::ranges::none_of(workers_,
                              [](const Worker& worker) { return worker.runs || worker.due; });
}

}  // namespace swarm::pod
