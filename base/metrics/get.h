// Asks a program of ours for a page that base/metrics/exporter.h serves.
#pragma once

#include <string>

#include "base/status.h"
#include "base/time.h"

namespace swarm::metrics {

/// An answer over HTTP.
struct Answer {
  int code = 0;  ///< 200, 503
  std::string text;
};

/// GET http://ADDRESS/PATH; `address` is that of an exporter with an IPv4 address. Blocks until the
/// deadline at most. Takes 16 MiB at most, and little of the stack. Errors: kInvalidArgument (no
/// such address), kUnavailable (no connection, no whole answer in time).
Result<Answer> GetPage(const std::string& address, const std::string& path, Timepoint deadline);

}  // namespace swarm::metrics
