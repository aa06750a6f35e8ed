// The best ways to train a job on a fleet: what the manifest leaves open is searched. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "planner/fleet.h"
#include "planner/predict.h"

namespace swarm::planner {

/// Plans within this share of the best count as equal.
inline constexpr double kPlanTie = 0.01;
/// No more stages are searched.
inline constexpr std::uint64_t kPlanStagesMax = 64;

/// What is best.
enum class Goal { kTokensPerSecond, kTokensPerDollar };

/// What the user has left open. What is not open stays as in the job.
struct Open {
  bool stages = true, codec = true;
  bool step_mode = true;  ///< Sync or Delayed
  bool microbatch = true;
  bool overlap = true;    ///< of step mode Local
  bool residency = true;  ///< whether stages are swapped
  bool layers = true;
  bool segments = true;  ///< of stages that are swapped: their memory, and what passes together
  bool replicas = true;  ///< the number of workers
  bool operator==(const Open&) const = default;
};

struct Plan {
  Way way;
  Prediction prediction;
};

/// From where on a plan that is not the best one would be: all links, or all devices, so many times
/// as fast; or where one of the two is swapped, all hosts with their disks and links to devices.
/// None: not within a factor of a thousand.
struct Turn {
  std::optional<double> slower_links, faster_links, slower_devices, faster_devices;
  std::optional<double> slower_hosts, faster_hosts;
  /// The best plan has no room, or is slower, on devices with less memory than that, where this one
  /// has.
  std::optional<double> smaller_devices;
};

struct Plans {
  /// The best one first. Each of the others has another number of stages, codec, step mode or
  /// residency, in order; beside devices with memory of their own, one that is swapped is among
  /// them, if it fits. Empty: the job fits nowhere.
  std::vector<Plan> plans;
  std::vector<Turn> turns;           ///< of each plan but the first
  std::uint64_t candidates = 0;      ///< that were predicted
  std::vector<std::string> changes;  ///< with no plans: what would make it fit, the smallest first
};

struct Request {
  api::SwarmJob job;  ///< valid, with a model that is read
  Fleet fleet;
  Open open;
  Goal goal = Goal::kTokensPerSecond;
  /// Whether a machine is used only beside all that come before it, as a job fills its pools.
  bool in_order = false;
  /// Of the numbers of stages that are searched, where they are open.
  std::uint64_t stages_min = 1, stages_max = kPlanStagesMax;
};

/// Codecs that change no model are searched, and those alone: None, BF16, Int8. The step mode Local
/// trains differently, so it is for the user to choose, as is its round. Plans within 1 % of the
/// best count as equal; then the plainer one wins: fewer bits lost, steps that do not overlap, a
/// state in memory, fewer stages, fewer machines. Machines may stay idle where that is better;
/// those that are used come in the order of the groups, and go where a trainer puts them. Requires
/// groups with flops.
Plans FindPlans(const Request& request, std::size_t at_most = 5);

}  // namespace swarm::planner
