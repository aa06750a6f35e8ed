// The proxy for a server, from environment variables. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace swarm::kube {

/// The value of an environment variable; empty if it is not set.
using Environment = std::function<std::string(const char*)>;

/// The environment of this process.
std::string ProcessEnvironment(const char* name);

/// The proxy for `server_url`, as Go programs find it; empty: none. It is the value of HTTPS_PROXY
/// or HTTP_PROXY, by the scheme of the URL, in upper or lower case, and an http:// URL if it has no
/// scheme. There is none for a loopback address, nor if NO_PROXY lists "*" or the host: by its
/// name, by a domain that it is in ("example.com": that host and those below; ".example.com": only
/// those below), by its address, or by a network ("10.0.0.0/8", "fd00::/8"). Names and addresses
/// may have a port; then only that port counts.
std::string ProxyFor(std::string_view server_url, const Environment& environment);

/// `proxy`, if requests can go through it: it is empty, or an http:// URL. Errors:
/// kInvalidArgument, which tells the scheme only, since a proxy's URL may have a password.
Result<std::string> CheckedProxy(const std::string& proxy);

}  // namespace swarm::kube
