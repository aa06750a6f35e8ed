// With which address this machine calls another one.
#pragma once

#include <string>

#include "base/status.h"

namespace swarm::ctl {

/// The address of this machine from which packets to `dial` (host:port) go; IPv6 without brackets.
/// Sends nothing. Errors: kUnavailable (the host has no address, or there is no way to it).
Result<std::string> LocalAddressTo(const std::string& dial);

}  // namespace swarm::ctl
