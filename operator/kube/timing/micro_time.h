// The API's MicroTime: RFC 3339 with microseconds, in UTC.
#pragma once

#include <string>

#include "operator/kube/timing/timing.h"

namespace swarm::kube {

/// "2026-01-31T23:59:59.000001Z".
std::string MicroTime(WallTime wall);

}  // namespace swarm::kube
