// The proxy for a server, from environment variables. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace swarm::kube {

/// The value of an environment variable; empty if it is not set.
using Environment = std::function<std::string(const char*)>;

/// The environment of this process.
std::string ProcessEnvironment(const char* name);

/// The proxy for `server_url`; empty: none. It is the value of HTTPS_PROXY or HTTP_PROXY, by the
/// scheme of the URL, in upper or lower case. There is none if NO_PROXY contains the host, a domain
/// of it ("example.com", ".example.com"), an IPv4 network with it ("10.0.0.0/8") or "*", and never
/// for a loopback address.
std::string ProxyFor(std::string_view server_url, const Environment& environment);

}  // namespace swarm::kube
