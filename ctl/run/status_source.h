// A source of the status of a job.
#pragma once

#include <optional>

#include "base/time.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::ctl {

/// Used from one thread.
class StatusSource {
 public:
  virtual ~StatusSource() = default;

  /// The next status that Poll has not returned yet; none if there is nothing new. Call it until it
  /// returns none. Never blocks for longer than it takes to read a local file.
  virtual std::optional<protocol::JobStatus> Poll() = 0;

  /// When the trainer last answered, as of the last Poll; none if it never has, or if this source
  /// does not ask it.
  virtual std::optional<Timepoint> trainer_heard() const { return std::nullopt; }
  /// The trainer's last answer, even if Poll has not returned it yet: it has the newest status of
  /// the stages. Null if trainer_heard() is none.
  virtual const protocol::JobStatus* trainer_said() const { return nullptr; }
};

}  // namespace swarm::ctl
