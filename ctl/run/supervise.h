// What is to be done about the programs of a job that have ended: the part of the operator's work
// that a run on one machine needs. What an end means, and how many failures are too many, is
// decided by the operator's plan (operator/plan). Pure: values in, values out, time injected.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "ctl/run/program.h"

namespace swarm::ctl {

inline constexpr std::string_view kTrainerName = "trainer";

struct SuperviseLimits {
  std::uint64_t failures_max = 10;         ///< workers that ended by themselves, within the window
  std::uint64_t kills_max = 5000;          ///< programs that somebody killed, of each role
  std::uint64_t trainer_failures_max = 3;  ///< of the trainer by another signal: it crashed
  Duration window = std::chrono::hours(1);
  Duration restart_delay{};  ///< from a worker's loss to the start of another
  bool restart = true;       ///< lost workers are replaced
  Duration trainer_silence_max = std::chrono::seconds(10);  ///< of one that has answered before
  Duration trainer_start_max = std::chrono::seconds(60);    ///< from a restart to the first answer
};

/// What to do now.
struct Actions {
  std::vector<std::string> start_workers;  ///< names, never used before
  bool kill_trainer = false;               ///< its process lives and does not answer
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
/// decided to. One that falls silent while its process lives (stopped, hung) is killed, and so
/// started again.
class Supervisor {
 public:
  /// `workers` of them are started at first: worker-0, worker-1, ...
  Supervisor(std::uint64_t workers, SuperviseLimits limits)
      : limits_(limits), next_ordinal_(workers) {}

  /// Each end that is observed is acted on once. Call it a few times a second: time in which it was
  /// not called is no silence of the trainer. `trainer_heard` is when the trainer last answered;
  /// none where nobody asks it.
  Actions Decide(Timepoint now, const std::vector<ObservedProgram>& observed,
                 std::optional<Timepoint> trainer_heard = {});

  /// A name for one more worker.
  std::string NextWorker() { return WorkerName(next_ordinal_++); }
  /// From now on nothing is replaced.
  void BeginStopping() { stopping_ = true; }
  /// Workers that were lost so far.
  std::uint64_t losses() const { return losses_; }

  static std::string WorkerName(std::uint64_t ordinal) {
    return "worker-" + std::to_string(ordinal);
  }

 private:
  struct Replacement {
    Timepoint when;
    std::string worker;
  };

  void OnTrainerEnded(Timepoint now, const ObservedProgram& trainer, Actions& actions);
  void OnTrainerRuns(Timepoint now, std::optional<Timepoint> heard, Actions& actions);
  void OnWorkerEnded(Timepoint now, const ObservedProgram& worker, Actions& actions);
  const SuperviseLimits limits_;
  std::uint64_t next_ordinal_;
  std::uint64_t losses_ = 0;
  bool stopping_ = false;
  std::set<std::string> ended_;           // workers whose end was acted on
  std::deque<Replacement> replacements_;  // the first is due first
  std::optional<Timepoint> last_decision_;
  Timepoint trainer_began_{};    // this one, as far as it is known
  Timepoint watching_since_{};   // without a pause of ours
  bool trainer_killed_ = false;  // for its silence; its end was not seen yet
  // Within the window, the oldest first.
  std::vector<Timepoint> failures_;
  std::vector<Timepoint> kills_;
  std::vector<Timepoint> trainer_failures_;
  std::vector<Timepoint> trainer_kills_;
};

/// "ended with exit code 7", "was ended by signal 9 (Killed)".
std::string DescribeEnd(const ObservedProgram& worker);

}  // namespace swarm::ctl
