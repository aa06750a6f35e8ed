// A profile as a trace that ui.perfetto.dev and chrome://tracing open: JSON in the "trace event
// format". Pure.
#pragma once

#include <string>
#include <vector>

#include "ctl/profile/summary.h"
#include "ctl/profile/worker_spans.h"

namespace swarm::ctl {

/// A process for each worker, by stage, with lanes for tasks (layers and encodings inside them),
/// other work, what the worker waited for, and sends. Sums, transfers and arrivals may overlap, so
/// they are asynchronous events. Times are in microseconds since the first span. Events are sorted
/// by time, those of processes and lanes first. `window` is that of the waits.
std::string ToTrace(const std::vector<WorkerSpans>& workers, const std::vector<Transfer>& transfers,
                    const Window& window);

}  // namespace swarm::ctl
