// What the trainer knows of a member, and tells no observer: the status of a job lacks it.
#pragma once

#include <string>

#include "worker/protocol/ids.h"

namespace swarm::protocol {

struct MemberDetails {
  std::string region;
  Version version;        ///< the last that it has reported as applied
  double round_trip = 0;  ///< seconds, the mean over the links that it has measured; 0: none
};

}  // namespace swarm::protocol
