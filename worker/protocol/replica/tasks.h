// The work of a replica: frames that wait, forwards, backwards, and the destinations of their
// outputs (rules 5, 6, 9, 10).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "worker/protocol/replica/folds.h"
#include "worker/protocol/replica/retention.h"

namespace swarm::protocol {

/// More than 25 methods: the events of a task, and the steps of its way.
class Tasks {
 public:
  Tasks(Standing* standing, Folds* folds)
      : standing_(*standing), folds_(*folds), retention_(standing->options.retained_bytes_max) {}

  Actions OnForward(const WorkerId& from, const Forward& frame, std::uint64_t bytes);
  Actions OnBackward(const WorkerId& from, const Backward& frame, std::uint64_t bytes);
  Actions OnForwardGone(const TaskKey& key);
  Actions OnForwardDone(const TaskKey& key, double loss, const Cost& cost,
                        const TaskDigests& digests);
  Actions OnBackwardDone(const TaskKey& key, const Cost& cost, bool fits,
                         const TaskDigests& digests);
  Actions OnResend(const Resend& resend);
  Actions OnRedirect(const Redirect& redirect);
  Actions OnRevoke(const Revoke& revoke);

  /// Starts what waited for a version or for a thaw.
  void StartParked(Actions& actions);
  /// Closes the tasks that were to fold into the step.
  void CloseFolding(Step step, Actions& actions);
  /// Closes all tasks: an earlier trainer has begun them.
  void CloseAll(Actions& actions);
  /// Drops gradients that wait for tasks which will not come.
  void ForgetClosed(Actions& actions);
  /// The step is committed: closes its tasks and those of earlier steps.
  void Close(Step step, Actions& actions);
  /// Forgets which tasks of these steps were known.
  void Forget(Step step);
  /// The task is over, and its output is not here: the answer to requests for it is Missing.
  void NoteGone(const TaskKey& key) { known_.insert(key); }

  /// Tasks whose forward or backward has been ordered and is not done.
  std::uint64_t queued() const { return queued_; }
  /// Frames that wait.
  std::uint64_t parked() const { return parked_ + early_backwards_.size(); }
  /// Of their payloads.
  std::uint64_t parked_bytes() const { return parked_bytes_; }
  std::uint64_t retained_bytes() const { return retention_.bytes(); }

 private:
  enum class State { kParked, kForwarding, kForwarded, kBackwarding };
  using Target = std::pair<WorkerId, TaskKey>;
  struct Task {
    Forward frame;
    std::uint64_t bytes = 0;  // of the input
    State state = State::kParked;
    double loss = 0;
    std::uint64_t input = 0;      // digest of what the forward took; 0: no audits
    std::vector<Forward> onward;  // where the output goes, instead of as `frame` says
    std::optional<Target> back;   // where the input gradient goes
  };
  using Map = std::map<TaskKey, Task>;

  bool Folds(const Forward& frame) const;
  /// Why a frame must not be executed; empty if it may.
  std::string_view WhyRefuse(const WorkerId& from, const Forward& frame, std::uint64_t bytes) const;
  /// The frame must wait: for a version, or for a thaw.
  bool MustWait(const Forward& frame) const;
  /// There is room for one more frame that waits.
  bool HasRoom(std::uint64_t frames, std::uint64_t bytes) const;
  /// The gradient has its task now, or is of no use any more. False: there is none.
  bool ForgetEarlyBackward(const TaskKey& key);
  /// Decides where the output of the task goes.
  void Route(Task& task);
  /// Starts a waiting task, unless it must wait longer.
  void StartIfReady(Task& task, Actions& actions);
  void RunBackward(Task& task, Actions& actions);
  /// The task's attempt is over, without a fold.
  void Close(Map::iterator task, Actions& actions);
  template <typename Predicate>
  void CloseIf(Predicate is_over, Actions& actions);
  /// Sends the output of the task to its destinations; false if it has none.
  bool SendOutputs(const TaskKey& key, Task& task, Actions& actions) const;
  void SendOutput(const TaskKey& source, const Forward& frame, Actions& actions) const;
  void SendGradient(const TaskKey& source, Version version, const Target& target,
                    Actions& actions) const;

  Standing& standing_;
  protocol::Folds& folds_;
  Retention retention_;
  Map tasks_;                // open
  std::set<TaskKey> known_;  // training tasks that were accepted or closed, of open steps
  std::map<TaskKey, std::uint64_t> early_backwards_;   // bytes
  std::set<std::pair<Attempt, TaskKey>> early_order_;  // the same, the oldest first
  std::map<TaskKey, std::vector<Forward>> early_resends_;
  std::map<TaskKey, Target> early_redirects_;
  std::uint64_t queued_ = 0;
  std::uint64_t parked_ = 0;
  std::uint64_t parked_bytes_ = 0;  // early backwards included
};

}  // namespace swarm::protocol
