// What a profile shows, in numbers. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "ctl/profile/division.h"
#include "ctl/profile/worker_spans.h"

namespace swarm::ctl {

/// Of all workers of a stage together.
struct StageProfile {
  std::uint64_t workers = 0;
  double seconds = 0;                                ///< the window, once for each worker
  std::array<double, kActivities> of_activity = {};  ///< of these seconds; they add up to them
  double send_seconds = 0;  ///< handing messages to the network, beside the work of the device
  double rate = 0;          ///< microbatches a second that the workers could compute
  double share(Activity activity) const {
    return seconds > 0 ? of_activity[static_cast<std::size_t>(activity)] / seconds : 0;
  }
};

/// Means of a microbatch. With Recompute::kFull a forward runs twice, the second time in the
/// backward of its stage.
struct LayerProfile {
  std::uint64_t layer = 0, stage = 0;
  double forward_seconds = 0, backward_seconds = 0;
  double seconds() const { return forward_seconds + backward_seconds; }
};

/// Means of what one stage sent to another.
struct CrossingProfile {
  std::uint64_t from = 0, to = 0;  ///< stages
  double bytes = 0;
  double seconds = 0;  ///< from the begin of sending until the receiver has taken it
};

struct ProfileSummary {
  std::uint64_t first_step = 0, last_step = 0;  ///< that the numbers are of
  Window window;
  std::vector<StageProfile> stages;
  std::vector<LayerProfile> layers;  ///< by layer; of computations on a GPU there are none
  std::vector<CrossingProfile> crossings;
  std::uint64_t dropped = 0;

  double seconds() const { return ToSeconds(window.end - window.begin); }
};

/// Of the steps from `first_step` on: from the begin of the first task of these to the end. Errors:
/// kNotFound (no worker has computed such a step).
Result<ProfileSummary> Summarize(const std::vector<WorkerSpans>& workers,
                                 const std::vector<Transfer>& transfers, std::uint64_t first_step);

}  // namespace swarm::ctl
