// Records of when the machines of a fleet came and went, as published with other systems.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace swarm::ctl {

/// The changes of one moment.
struct TraceEvent {
  double seconds = 0;  ///< since the beginning of the trace
  std::vector<std::string> departures;
  std::vector<std::string> joins;
};

struct Trace {
  std::vector<TraceEvent> events;  ///< strictly later each; the first at 0
  double seconds = 0;              ///< length of the trace
};

/// Reads either of two formats, one record a line:
/// - Bamboo's CSV, `MILLISECONDS,add|remove,NODE`; the trace ends with its last record;
/// - Parcae's JSON, `[MILLISECONDS, "add"|"remove"|"no-op", {"nodes": [...], "duration": MS}]`.
/// Time begins at the first record. Errors: kInvalidArgument with the line's number for any other
/// format, for time that runs backwards, for a node that is added twice, and for the removal of a
/// node that is not there.
Result<Trace> ParseTrace(std::string_view text);

}  // namespace swarm::ctl
