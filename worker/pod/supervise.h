// Decides what a pod does about a worker of it that has ended: starts it again, or does without its
// device. Pure: the caller passes in the time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "worker/processes/program.h"

namespace swarm::pod {

struct RestartLimits {
  Duration first_delay = std::chrono::seconds(1);  ///< from an end to the next start; each further
                                                   ///< failure of the window doubles it
  Duration delay_max = std::chrono::seconds(60);
  std::size_t failures_max = 8;  ///< of a worker within the window; one more: its device is lost
  Duration window = std::chrono::hours(1);
};

/// A worker that was killed, or has failed for a reason that may pass, is started again under its
/// id. Any other end is final: it was told to end, or would end so again.
class Supervisor {
 public:
  Supervisor(std::size_t workers, RestartLimits limits) : workers_(workers), limits_(limits) {}

  /// The worker has ended. Returns what follows, for people: "starting it again in 2 s".
  std::string OnEnded(std::size_t index, const ObservedProgram& end, Timepoint now);
  /// The workers to start now, and to each of them once; at first all.
  std::vector<std::size_t> TakeDue(Timepoint now);
  /// When TakeDue has the next one. None: not before another end.
  std::optional<Timepoint> NextDue() const;
  /// From now on no worker is started.
  void BeginLeaving();
  /// No worker runs, and none will be started.
  bool HasEnded() const;
  /// Of the pod, which has ended: 0 if the trainer has told a worker to end, else that of the last
  /// worker; 128 and the signal where one has ended that.
  int exit_code() const { return told_to_end_ ? 0 : last_code_; }

 private:
  struct Worker {
    bool runs = false;
    std::optional<Timepoint> due = Timepoint();
    std::vector<Timepoint> failures;  // within the window, the oldest first
  };

  std::vector<Worker> workers_;
  const RestartLimits limits_;
  bool leaving_ = false;
  bool told_to_end_ = false;
  int last_code_ = 0;
};

}  // namespace swarm::pod
