// The end of a trainer: its outcome, and that it ends once.
#pragma once

#include <future>
#include <optional>
#include <string>
#include <utility>

#include "worker/protocol/messages/control.h"

namespace swarm::trainer {

/// How a job ended.
struct Outcome {
  bool succeeded = false;
  bool stopped_early = false;
  bool superseded = false;   ///< it is another trainer's turn; neither a success nor a failure
  bool was_stopped = false;  ///< with `superseded`: there may be no other trainer yet
  std::string reason;
  protocol::FailureClass failure_class{};  ///< of a failure
  bool resumable = false;                  ///< there is a checkpoint to go on from
  bool overdue = false;  ///< stopped without the checkpoint that should have been the last
};

/// ended() is for other threads; everything else belongs to one thread.
class Ending {
 public:
  /// A stop has taken too long. Before Decide.
  void MarkOverdue() { overdue_ = true; }
  bool overdue() const { return overdue_; }
  /// Sets how the job ended. The trainer has yet to tell its workers and observers.
  void Decide(Outcome outcome) { outcome_ = std::move(outcome); }
  bool decided() const { return outcome_.has_value(); }
  /// Requires decided(). Once; later calls do nothing.
  void End() {
    if (!std::exchange(ended_already_, true)) ended_.set_value(*outcome_);
  }
  /// Ready when End was called. From any thread.
  const std::shared_future<Outcome>& ended() const { return future_; }

 private:
  std::promise<Outcome> ended_;
  const std::shared_future<Outcome> future_ = ended_.get_future().share();
  std::optional<Outcome> outcome_;
  bool overdue_ = false;
  bool ended_already_ = false;
};

}  // namespace swarm::trainer
