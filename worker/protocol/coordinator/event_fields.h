// What programs read of an event, beside its kind: keys of events.jsonl, so they keep their meaning
// (docs/report.md has the table).
#pragma once

#include <optional>
#include <string>

#include "worker/protocol/ids.h"

namespace swarm::protocol {

struct EventFields {
  WorkerId worker = {};                  ///< whom it concerns; empty: no one worker
  std::optional<StageIndex> stage = {};  ///< where; none: no one stage
  std::string cause = {};                ///< the name of an EvictionCause or FailureClass
  std::optional<double> seconds = {};    ///< how long that took or lasted which the event ends
  bool operator==(const EventFields&) const = default;
};

}  // namespace swarm::protocol
