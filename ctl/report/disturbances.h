// When the steps of a run were computed, what disturbed them, and what that cost. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctl/report/run_record.h"

namespace swarm::ctl {

/// What an event is to a reader of the run.
enum class EventClass {
  kFault,       ///< something went wrong, or a fault was injected
  kTakeover,    ///< a new trainer goes on, or the job goes back to a checkpoint
  kRoster,      ///< workers come, go in order, or move
  kCheckpoint,  ///< one was written
  kOther,
};

EventClass ClassOf(const std::string& kind);

/// An event of the run, or a fault that was injected, at its place among the steps.
struct PlacedEvent {
  EventClass what = EventClass::kOther;
  std::string kind;  ///< of events.jsonl; Injected for a fault of chaos.jsonl
  std::string text;
  std::optional<double> seconds;      ///< since the first event
  std::optional<std::uint64_t> step;  ///< the step that it disturbs: so many were committed
  // As EventRow.
  std::string worker = {};
  std::optional<std::uint64_t> stage = {};
  std::string cause = {};
  std::optional<double> lasted = {};  ///< its seconds
};

/// Faults that hit steps close to each other, so that their costs cannot be told apart.
struct Incident {
  std::vector<PlacedEvent> events;
  std::uint64_t first_step = 0, last_step = 0;  ///< that were slowed, or could have been
  /// Beyond what undisturbed steps take, with the time in which no trainer worked. None: no
  /// step's time says it.
  std::optional<double> lost_seconds;
  double lost_tokens = 0;  ///< that undisturbed steps would have trained in that time
};

struct Disturbances {
  std::vector<PlacedEvent> events;  ///< all, in the order of time
  std::vector<Incident> incidents;
  double usual_seconds = 0;  ///< the median of undisturbed steps; 0: there are none
  double slow_seconds = 0;   ///< nine of ten undisturbed steps are not slower
  double lost_seconds = 0;   ///< of all incidents
  double lost_tokens = 0;
  std::optional<double> wall_seconds;  ///< from the first event to the last line
};

Disturbances FindDisturbances(const RunRecord& record);

}  // namespace swarm::ctl
