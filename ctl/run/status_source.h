// Where swarmctl learns how a job goes.
#pragma once

#include <optional>

#include "base/time.h"
#include "worker/protocol/messages/message.h"

namespace swarm::ctl {

/// Used from one thread.
class StatusSource {
 public:
  virtual ~StatusSource() = default;

  /// The next status that Poll has not returned yet; none if nothing is new. Never blocks for
  /// longer than reading a local file takes. Call it until there is none.
  virtual std::optional<protocol::JobStatus> Poll() = 0;

  /// When the trainer last answered, as of the last Poll; none if it never has, or where nobody
  /// asks it.
  virtual std::optional<Timepoint> trainer_heard() const { return std::nullopt; }
  /// What the trainer last said, even if Poll has not returned it yet: the newest word about the
  /// stages. None as above.
  virtual const protocol::JobStatus* trainer_said() const { return nullptr; }
};

}  // namespace swarm::ctl
