// What a way to train a job on a fleet would bring, by the costs of its parts. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/swarmjob.h"
#include "planner/fleet.h"
#include "planner/model_costs.h"

namespace swarm::planner {

/// A way to train: what a manifest may leave open, and which machines serve what. `spec` has the
/// codec, the step mode, the residency, the microbatch and the number of stages of the way.
struct Way {
  api::Spec spec;
  std::vector<Run> runs;                             ///< of each stage
  std::vector<std::vector<std::uint64_t>> machines;  ///< [stage][group of the fleet]
};

/// What keeps a step from being shorter.
enum class Limit {
  kCompute,      ///< the devices of a stage
  kDisk,         ///< the disks of a stage that is swapped
  kHostMemory,   ///< copies within the memory of its hosts
  kDeviceLink,   ///< the links between its hosts and devices
  kUpdate,       ///< what its hosts compute of an update
  kLine,         ///< the lines of its machines
  kConnection,   ///< the connections from it to the next stage
  kInFlight,     ///< the microbatches that a worker may hold, or has memory for, of any stage
  kSum,          ///< where steps overlap: the sum of a stage, since one step is summed at a time
  kStepLatency,  ///< where steps overlap: a step waits for the commit of the one before the last
};

/// Of one of a swapped stage's machines, of a step.
struct SwapPrediction {
  std::uint64_t segments = 0;
  std::uint64_t tasks = 0;     ///< microbatches that pass a segment together
  bool in_memory = false;      ///< the state is in the memory of the host
  double compute_seconds = 0;  ///< of the passes, what the device computes
  double pass_seconds = 0;
  Limit waits = Limit::kDisk;    ///< for what passes wait besides
  double update_seconds = 0;     ///< beside passes what it adds to them
  Limit updates = Limit::kDisk;  ///< for what an update waits
};

/// Of one of the stage's machines, where no other is named.
struct StagePrediction {
  Run run;
  std::uint64_t machines = 0;
  std::uint64_t parameters = 0;  ///< with those that adapters leave as they are
  double token_flops = 0;        ///< forward and backward
  double busy_share = 0;         ///< of its devices' time
  double memory_bytes = 0;       ///< of the machine where it computes
  double bytes_per_second = 0;   ///< it sends, of activations and gradients, and for sums
  std::uint64_t in_flight = 0;   ///< microbatches between forward and backward
  std::optional<SwapPrediction> swap;
};

struct Prediction {
  double tokens_per_second = 0;
  double dollars_per_hour = 0;   ///< machines and traffic
  double tokens_per_dollar = 0;  ///< 0: it costs nothing
  double step_seconds = 0;       ///< without losses
  double bound_seconds = 0;      ///< of them, what `limit` takes
  /// Where steps do not overlap: until the pipeline is full, and until it is empty.
  double fill_seconds = 0;
  double reduce_seconds = 0;  ///< the longest sum of a stage's gradients
  /// From one region to another, of a step: of its sums, and of its activations and gradients.
  double reduce_region_bytes = 0, boundary_region_bytes = 0;
  double commit_seconds = 0;  ///< messages between trainer and workers
  /// Of a stage that is swapped, or updated by the host: its state comes and leaves. Where steps
  /// overlap, a part of `bound_seconds`; else `limit` may be of it.
  double update_seconds = 0;
  double lost_share = 0;      ///< of the throughput: recoveries and machines that are away
  double boundary_bytes = 0;  ///< of a microbatch, forward
  Limit limit = Limit::kCompute;
  std::size_t limit_stage = 0;
  /// Of the manifest, for this to be so. Absent: what a trainer allows of itself does.
  std::optional<std::uint64_t> in_flight_max;
  std::vector<StagePrediction> stages;
};

/// What keeps the step from being shorter, in words.
std::string LimitText(const Prediction& prediction);
std::string LimitText(Limit limit, std::size_t stage);

/// Requires that each stage has a machine, that all of them have the memory (LeastMemory), and that
/// `model` has the costs of a way with that residency.
Prediction Predict(const Way& way, const ModelCosts& model, const Fleet& fleet);

/// The same, as if workers had room for any number of microbatches in flight: at least as good, and
/// soon known. Where `in_flight_max` is absent, it is what Predict says.
Prediction PredictRoomy(const Way& way, const ModelCosts& model, const Fleet& fleet);

}  // namespace swarm::planner
