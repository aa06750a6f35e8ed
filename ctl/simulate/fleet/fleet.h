// A fleet and the job that it trains, as values: what `swarmctl simulate --fleet` reads from a file
// (ctl/simulate/fleet_file.h). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/format/field_error.h"
#include "ctl/simulate/trace.h"
#include "planner/fleet.h"
#include "worker/protocol/balance/balance.h"
#include "worker/protocol/replica/options.h"

namespace swarm::ctl {

/// The job. A list "by stage" has one value for each stage, or one for all.
struct FleetJob {
  std::uint64_t stages = 1;
  std::uint64_t microbatches = 1;  ///< of a step
  std::uint64_t sequences = 1;     ///< of a microbatch
  std::uint64_t sequence_length = 1;
  bool delayed = true;              ///< step mode Delayed, else Sync
  std::vector<double> parameters;   ///< by stage
  std::vector<double> token_flops;  ///< by stage: of a token, forward and backward
  double forward_share = 1.0 / 3;   ///< of the work of a microbatch
  double boundary_bytes = 0;        ///< of a microbatch, as the codec sends it, each way
  double state_bytes = 0;           ///< of a parameter: what a joiner and a checkpoint copy
  double gradient_bytes = 0;        ///< of a parameter: what a reduce sends of a contribution
  /// A worker keeps so much of what it has sent, for repairs (rule 10).
  double retained_bytes = static_cast<double>(protocol::ReplicaOptions().retained_bytes_max);
  /// Of each stage at the beginning, together all machines; empty: each machine goes to the slowest
  /// stage.
  std::vector<std::uint64_t> replicas;
  std::uint64_t in_flight_max = 0;     ///< microbatches of a worker; 0: as many as keep it busy
  double optimizer_seconds = 0;        ///< to apply a commit
  std::uint64_t checkpoint_steps = 0;  ///< between two checkpoints; 0: none
  protocol::BalancePolicy balance = protocol::BalancePolicy::kEvent;
  double balance_period_seconds = 300;  ///< of kPeriodic
  bool reports_links = true;            ///< workers report links, and routes follow them (rule 29)

  std::uint64_t MicrobatchTokens() const { return sequences * sequence_length; }
  double StepTokens() const { return static_cast<double>(microbatches * MicrobatchTokens()); }
  double StateBytes(std::uint64_t stage) const;
  double GradientBytes(std::uint64_t stage) const;
};

/// Machines that are alike.
struct FleetGroup {
  /// `count`: at the beginning, without a trace. `flops`: 0: microbatch_seconds. A simulation takes
  /// notice of these two, the region, the lines, and how often machines go and come; only plans of
  /// the others.
  planner::Machines machines;
  std::vector<double> microbatch_seconds;  ///< by stage: forward and backward
  double jitter = 0;                       ///< a piece of work takes up to this share more or less
  double notice_seconds = 0;               ///< that a machine hears before it goes; 0: none
  Trace trace;                             ///< when its machines come and go; empty: `count`
};

struct Fleet {
  FleetJob job;
  std::vector<FleetGroup> groups;
  std::vector<planner::Link> links;  ///< planner::LinkOf
  std::string trainer_region;
  double seconds = 600;          ///< that are simulated
  double warm_up_seconds = 60;   ///< of them, that do not count
  double detect_seconds = 1.35;  ///< from the loss of a machine to its eviction (detector.h)
  double restart_seconds = 1;    ///< of a worker's process that comes back
};

/// The value of a list "by stage".
double AtStage(const std::vector<double>& by_stage, std::uint64_t stage);

/// How long a machine computes on a microbatch at that stage, forward and backward, without jitter.
double MicrobatchSeconds(const FleetJob& job, const FleetGroup& group, std::uint64_t stage);

/// The tokens a second of one machine if it served all stages in turn and never waited. The sum
/// over all machines is the ideal of a fleet: no assignment of machines to stages brings more, if
/// the ratio of the stages is the same on all machines.
double IdealTokensPerSecond(const FleetJob& job, const FleetGroup& group);

/// The workers that each stage begins with: each goes to the stage that is slowest so far. Requires
/// a fleet without errors.
std::vector<std::uint64_t> ReplicasAtStart(const Fleet& fleet);

/// The tokens a second of the slowest stage, if each machine serves one stage and never waits, and
/// the machines are spread over the stages as well as possible: one after the other to the slowest
/// stage. `counts` has the machines of each group.
double AssignedTokensPerSecond(const Fleet& fleet, const std::vector<std::uint64_t>& counts);

/// What is wrong with the fleet; the paths are those of the file.
std::vector<api::FieldError> Check(const Fleet& fleet);

/// The same of machines and links for which a job is planned: `job` does not count.
std::vector<api::FieldError> CheckMachines(const Fleet& fleet);

}  // namespace swarm::ctl
