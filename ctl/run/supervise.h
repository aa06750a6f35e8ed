// Decides what `swarmctl run` does about programs of a job that have ended. The operator's plan
// (operator/plan) decides what an end means and how many failures are too many. Pure: the caller
// passes in the time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "worker/processes/program.h"

namespace swarm::ctl {

inline constexpr std::string_view kTrainerName = "trainer";

struct SuperviseLimits {
  std::uint64_t failures_max = 10;         ///< ends of workers by themselves, within the window
  std::uint64_t kills_max = 5000;          ///< kills from outside, for each role
  std::uint64_t trainer_failures_max = 3;  ///< crashes of the trainer (other signals)
  Duration window = std::chrono::hours(1);
  Duration restart_delay{};  ///< from the end of a worker to the start of its replacement
  bool restart = true;       ///< workers that end are replaced
  Duration trainer_silence_max = std::chrono::seconds(10);  ///< of a trainer that has answered
  Duration trainer_start_max = std::chrono::seconds(60);    ///< from a restart to the first answer
};

/// What to do now.
struct Actions {
  std::vector<std::string> start_workers;  ///< names that were never used before
  bool kill_trainer = false;               ///< its process lives but does not answer
  bool restart_trainer = false;            ///< with a new term, at its old address
  std::vector<std::string> events;         ///< one sentence for each thing that has happened
  std::optional<int> trainer_exit_code;    ///< the trainer has exited: the job is over
  std::string give_up;                     ///< not empty: end the job, for this reason
  std::string give_up_because_of;          ///< the worker whose log explains the reason, if any
};

/// Replaces workers that end and a trainer that is killed, as long as this can help.
///
/// A worker that exits with 0 was told to leave and is not replaced. After any other end, a worker
/// with a new name starts, unless its flags, manifest, model or data are wrong (kBadUsage). A
/// trainer that a signal ended starts again: a new trainer recovers its state. So does one that was
/// stopped for so long that it has lost its workers (kWasStopped). A trainer that exits otherwise
/// has decided to exit, and does not start again. A trainer that stops answering while its process
/// lives (stopped, hung) is killed, and then starts again.
class Supervisor {
 public:
  /// `workers` of them are started at first: worker-0, worker-1, ...
  Supervisor(std::uint64_t workers, SuperviseLimits limits)
      : limits_(limits), next_ordinal_(workers) {}

  /// Acts once on each observed end. Call it a few times a second: a time without calls does not
  /// count as silence of the trainer. `trainer_heard` is when the trainer last answered; none if
  /// the run does not ask it.
  Actions Decide(Timepoint now, const std::vector<ObservedProgram>& observed,
                 std::optional<Timepoint> trainer_heard = {});

  /// The name of one more worker.
  std::string NextWorker() { return WorkerName(next_ordinal_++); }
  /// From now on, Decide replaces no program.
  void BeginStopping() { stopping_ = true; }
  /// Workers that have ended without being told to leave.
  std::uint64_t departures() const { return departures_; }

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
  std::uint64_t departures_ = 0;
  bool stopping_ = false;
  std::set<std::string> ended_;           // workers on whose end Decide has acted
  std::deque<Replacement> replacements_;  // the first is due first
  std::optional<Timepoint> last_decision_;
  Timepoint trainer_began_{};    // start of the current trainer; zero: of the first one
  Timepoint watching_since_{};   // Decide was called without a pause since then
  bool trainer_killed_ = false;  // for its silence; its end was not observed yet
  // Within the window, the oldest first.
  std::vector<Timepoint> failures_;
  std::vector<Timepoint> kills_;
  std::vector<Timepoint> trainer_failures_;
  std::vector<Timepoint> trainer_kills_;
};

}  // namespace swarm::ctl
