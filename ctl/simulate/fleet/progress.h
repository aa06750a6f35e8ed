// The steps of a simulated job over time, and what follows from them.
#pragma once

#include <vector>

#include "ctl/simulate/fleet/fleet.h"
#include "ctl/simulate/fleet/fleet_result.h"
#include "ctl/simulate/fleet/presence.h"
#include "worker/protocol/ids.h"

namespace swarm::ctl {

class Progress {
 public:
  /// The step is committed. `seconds` since the start; never runs backwards.
  void OnStep(protocol::Step step, double seconds);
  /// Steps from that version on do not count.
  void OnRolledBack(protocol::Version version);

  /// Rates, means and timeline of the time from `warm_up` to `end`, and no other fields.
  FleetResult Summarize(const Fleet& fleet, const std::vector<Stay>& stays, double warm_up,
                        double end) const;

 private:
  void SetRate(const Fleet& fleet, double warm_up, double end, FleetResult* result) const;
  void DrawTimeline(const Fleet& fleet, const std::vector<Stay>& stays, double end,
                    FleetResult* result) const;

  std::vector<double> commits_;  // the time of each step
};

}  // namespace swarm::ctl
