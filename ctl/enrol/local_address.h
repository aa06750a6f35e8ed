// With which address this machine calls another one, how far that is, and who calls it.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "base/time.h"

namespace swarm::ctl {

/// The address of this machine from which packets to `dial` (host:port) go; IPv6 without brackets.
/// Sends nothing. Errors: kUnavailable (the host has no address, or there is no way to it).
Result<std::string> LocalAddressTo(const std::string& dial);

/// The least time of a few connections to `dial` (host:port), which are closed at once: about one
/// round trip. None: nothing listens there, or not within a second.
std::optional<Duration> RoundTripTo(const std::string& dial);

/// What counts as one source of calls: an IPv4 address, or the 64 bits of an IPv6 address that one
/// customer of a network has for all its machines. Any other text is as it is.
std::string SourceOf(const std::string& address);

}  // namespace swarm::ctl
