// Where swarmctl learns how a job goes.
#pragma once

#include <optional>

#include "worker/protocol/messages.h"

namespace swarm::ctl {

/// Used from one thread.
class StatusSource {
 public:
  virtual ~StatusSource() = default;

  /// The next status that Poll has not returned yet; none if nothing is new. Never blocks for
  /// longer than reading a local file takes. Call it until there is none.
  virtual std::optional<protocol::JobStatus> Poll() = 0;
};

}  // namespace swarm::ctl
