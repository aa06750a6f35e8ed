// What a simulation of a fleet says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctl/simulate/fleet/traffic.h"
#include "worker/protocol/coordinator/event_kind.h"
#include "worker/protocol/messages/observers.h"

namespace swarm::ctl {

/// The trainer's load.
struct TrainerLoad {
  std::uint64_t received = 0;    ///< messages of workers, without heartbeats
  std::uint64_t sent = 0;        ///< to workers
  std::uint64_t heartbeats = 0;  ///< received
  /// Processor seconds of this machine in the coordinator. They alone are measured, and differ from
  /// run to run.
  double measured_message_seconds = 0;  ///< for what it received, without heartbeats
  double measured_other_seconds = 0;    ///< for heartbeats and deadlines
};

/// The time from the loss of a machine until other workers had done again what it held: all
/// microbatches of open steps that it had accepted or folded.
struct RecoveryTimes {
  std::uint64_t losses = 0;       ///< of machines that held something
  std::uint64_t rolled_back = 0;  ///< of them, in a job that went back to a checkpoint before
  std::uint64_t open = 0;         ///< of them, not over at the end
  std::vector<double> seconds;    ///< of the others, sorted

  double Mean() const;
  /// `share` of them are not longer; 0 without any.
  double Quantile(double share) const;
};

struct FleetResult {
  /// Empty: the job trained to the end of the time.
  std::string failure;
  double seconds = 0;  ///< that count: after the warm-up
  std::uint64_t steps = 0;
  double tokens_per_second = 0;
  double ideal_tokens_per_second = 0;     ///< mean over time: IdealTokensPerSecond of all machines
  double assigned_tokens_per_second = 0;  ///< the same of AssignedTokensPerSecond
  double busy_share = 0;                  ///< of the machines' time, in which they computed
  double workers = 0;                     ///< mean over time
  std::uint64_t lost = 0;                 ///< machines that went, from the start
  std::uint64_t arrived = 0;              ///< that came after the start
  protocol::JobCounts counts;             ///< of the trainer, from the start
  RecoveryTimes recoveries;               ///< from the start
  TrafficCounts traffic;                  ///< from the start
  double traffic_seconds = 0;             ///< the time of `traffic`, `trainer` and the counts
  TrainerLoad trainer;
  std::uint64_t events = 0;  ///< of the simulation

  struct Event {
    double seconds = 0;  ///< since the start
    protocol::EventKind kind{};
    std::string text;
  };
  std::vector<Event> log;  ///< what a trainer writes to events.jsonl

  struct Point {
    double seconds = 0;  ///< since the start
    double tokens_per_second = 0;
    double workers = 0;
  };
  std::vector<Point> timeline;  ///< at equal distances; means over each

  double AssignedShare() const {
    return assigned_tokens_per_second > 0 ? tokens_per_second / assigned_tokens_per_second : 0;
  }
  double Goodput() const {
    return ideal_tokens_per_second > 0 ? tokens_per_second / ideal_tokens_per_second : 0;
  }
};

}  // namespace swarm::ctl
