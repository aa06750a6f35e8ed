// How the training of a job goes, as its trainer serves it at /metrics, or its status says. Pure.
#pragma once

#include <limits>
#include <optional>
#include <string_view>

#include "api/status.h"

namespace swarm::ctl {

/// NaN: not known, or not yet.
struct Progress {
  double loss = std::numeric_limits<double>::quiet_NaN();  ///< of the last step, nats per token
  double tokens_per_second = std::numeric_limits<double>::quiet_NaN();
  double seconds_left = std::numeric_limits<double>::quiet_NaN();  ///< to the last step
};

/// Reads the text format of Prometheus; lines that it does not need may be anything.
Progress ReadProgress(std::string_view metrics);

/// As the operator wrote it a minute ago or less. None: it has not heard of any.
std::optional<Progress> ProgressOf(const api::SwarmJobStatus& status);

}  // namespace swarm::ctl
