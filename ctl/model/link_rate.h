// What a connection to another machine carries.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace swarm::ctl {

struct LinkRate {
  double upload = 0, download = 0;  ///< bytes a second of one connection
  double round_trip_seconds = 0;    ///< the least while bytes flow
};

/// Sends to `iperf3 -s` at HOST or HOST:PORT (5201), and receives from it, for so many whole
/// seconds each, after one of warming up. Errors: kUnavailable (no server there, or it is busy).
Result<LinkRate> MeasureLink(const std::string& address, int seconds);

}  // namespace swarm::ctl
