// What is to be done about the programs of a job that have ended: the part of the operator's work
// that a run on one machine needs. Pure: values in, values out, time injected.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "ctl/backend.h"

namespace swarm::ctl {

inline constexpr std::string_view kTrainerName = "trainer";

struct SuperviseLimits {
  std::uint64_t failures_max = 10;  ///< workers that ended by themselves, within the window
  std::uint64_t kills_max = 500;    ///< workers that somebody killed, within the window
  Duration window = std::chrono::hours(1);
  std::uint64_t trainer_restarts_max = 3;  ///< of a trainer that a signal has ended
};

/// What to do now.
struct Actions {
  std::vector<std::string> start_workers;  ///< names, never used before
  bool restart_trainer = false;            ///< with a new term, at its old address
  std::vector<std::string> events;         ///< what has happened, a sentence each
  std::optional<int> trainer_exit_code;    ///< the trainer has ended by itself: the job is over
  std::string give_up;                     ///< not empty: end the job, for this reason
  std::string give_up_because_of;          ///< the worker whose log explains it; empty: none
};

/// Replaces lost workers and a killed trainer, as long as that has a chance to help.
///
/// A worker that ends with 0 was told to leave; any other end is a loss, for which a worker with a
/// new name is started, unless it could not work as it was started (kBadUsage). A trainer that a
/// signal has ended is started again: its state is soft. One that ends with an exit code has
/// decided to.
class Supervisor {
 public:
  /// `workers` of them are started at first: worker-0, worker-1, ...
  Supervisor(std::uint64_t workers, SuperviseLimits limits)
      : limits_(limits), next_ordinal_(workers) {}

  /// Each end that is observed is acted on once.
  Actions Decide(Timepoint now, const std::vector<ObservedWorker>& observed);

  /// From now on nothing is replaced.
  void BeginStopping() { stopping_ = true; }
  /// Workers that were lost so far.
  std::uint64_t losses() const { return losses_; }

  static std::string WorkerName(std::uint64_t ordinal) {
    return "worker-" + std::to_string(ordinal);
  }

 private:
  void OnTrainerEnded(const ObservedWorker& trainer, Actions& actions);
  void OnWorkerEnded(Timepoint now, const ObservedWorker& worker, Actions& actions);

  const SuperviseLimits limits_;
  std::uint64_t next_ordinal_;
  std::uint64_t losses_ = 0;
  std::uint64_t trainer_restarts_ = 0;
  bool stopping_ = false;
  std::set<std::string> ended_;  // workers whose end was acted on
  // Within the window, the oldest first.
  std::deque<Timepoint> failures_;
  std::deque<Timepoint> kills_;
};

/// "ended with exit code 7", "was ended by signal 9 (Killed)".
std::string DescribeEnd(const ObservedWorker& worker);

}  // namespace swarm::ctl
